#include "sim/cost/shipped_profiles.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/specs.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

std::string WriteProfile(const std::string& name, bool with_host) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p ", folder).c_str()), 0);
  std::ofstream(folder + "/dense.csv") << "layer,tokens,time_us\nall,1,10\n";
  std::ofstream(folder + "/per_sequence.csv")
      << "layer,sequences,time_us\nhead,1,1\n";
  std::ofstream(folder + "/attention.csv")
      << "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
         "0,0,1,16,5\n16,0,0,0,3\n";
  if (with_host) {
    std::ofstream(folder + "/host_overhead.csv")
        << "constant_us,per_sequence_us\n20,0.5\n";
  }
  return folder;
}

TEST(LoadProfileTest, OneOfNameAndDirectory) {
  ProfileOptions options;
  EXPECT_THAT(LoadProfile(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("profile option directory is empty")));
  options.set_name("no_such_card");
  EXPECT_THAT(LoadProfile(options),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("unknown profile \"no_such_card\"")));
  options.set_directory("/tables");
  EXPECT_THAT(LoadProfile(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("both given")));
}

TEST(ShippedProfilesTest, H200) {
  EXPECT_TRUE(IsShippedProfile("h200_llama3.1_8b"));
  EXPECT_FALSE(IsShippedProfile("h200"));
  EXPECT_EQ(ShippedProfileFor("llama3.1_8b", "h200"), "h200_llama3.1_8b");
  EXPECT_EQ(ShippedProfileFor("llama3.1_8b", "a100_80gb"), "");
  EXPECT_EQ(ShippedProfileFor("llama3.2_3b", "h200"), "h200_llama3.2_3b");
  bool listed = false;
  for (const NamedSpec& profile : ListProfiles()) {
    if (profile.name != "h200_llama3.1_8b") continue;
    listed = true;
    EXPECT_THAT(profile.description, HasSubstr("llama3.1_8b, NVIDIA H200"));
  }
  EXPECT_TRUE(listed);
}

// Every shipped profile can be read whole, and says what it holds for.
TEST(ShippedProfilesTest, AllLoad) {
  for (const NamedSpec& profile : ListProfiles()) {
    ProfileOptions options;
    options.set_name(profile.name);
    ASSERT_OK_AND_ASSIGN(const ProfileTables tables, LoadProfile(options));
    EXPECT_FALSE(tables.layers.empty()) << profile.name;
    EXPECT_TRUE(tables.host.has_value()) << profile.name;
    EXPECT_FALSE(tables.attention.mixed.empty()) << profile.name;
    EXPECT_FALSE(tables.attention.mixed.has_extended()) << profile.name;
    EXPECT_FALSE(tables.attention.decode.has_extended()) << profile.name;
    EXPECT_GT(tables.throttle.time_constant_us, 0) << profile.name;
    EXPECT_OK(LookupModel(tables.meta.at("model_name")));
    EXPECT_OK(LookupDevice(tables.meta.at("device_name")));
  }
}

TEST(SettleHostOverheadTest, TakesTheProfilesUnlessThereIsOne) {
  CostModelConfig config;
  EXPECT_OK(SettleHostOverhead(&config));
  EXPECT_FALSE(config.has_host_overhead());

  config.mutable_profile()->set_directory(WriteProfile("without", false));
  EXPECT_OK(SettleHostOverhead(&config));
  EXPECT_FALSE(config.has_host_overhead());

  config.mutable_profile()->set_directory(WriteProfile("with", true));
  EXPECT_OK(SettleHostOverhead(&config));
  EXPECT_EQ(config.host_overhead().constant_us(), 20);
  EXPECT_EQ(config.host_overhead().per_sequence_us(), 0.5);

  config.mutable_host_overhead()->set_constant_us(7);
  EXPECT_OK(SettleHostOverhead(&config));
  EXPECT_EQ(config.host_overhead().constant_us(), 7);
}

}  // namespace
}  // namespace interleave::sim
