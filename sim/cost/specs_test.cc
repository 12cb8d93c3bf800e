#include "sim/cost/specs.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(SpecsTest, ListsWhatIsShipped) {
  const auto named = [](const char* name) {
    return AllOf(Field(&NamedSpec::name, name),
                 Field(&NamedSpec::description, Not(testing::IsEmpty())));
  };
  EXPECT_THAT(
      ListModels(),
      ElementsAre(named("llama3.1_70b"), named("llama3.1_8b"),
                  named("llama3.2_3b"), named("llama3.3_70b_fp8"),
                  named("mistral_7b"), named("mixtral_8x7b"),
                  named("qwen3_14b"), named("qwen3_32b"), named("yi_34b")));
  EXPECT_THAT(ListDevices(),
              ElementsAre(named("a100_80gb"), named("h100_sxm"), named("h200"),
                          named("l40s"), named("rtx_4090")));
}

TEST(SpecsTest, EveryShippedSpecIsValid) {
  for (const NamedSpec& spec : ListModels()) {
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel(spec.name));
    EXPECT_EQ(model.name(), spec.name);
    EXPECT_GT(model.max_context_tokens(), 0) << spec.name;
  }
  for (const NamedSpec& spec : ListDevices()) {
    ASSERT_OK_AND_ASSIGN(const DeviceSpec device, LookupDevice(spec.name));
    EXPECT_EQ(device.name(), spec.name);
  }
}

TEST(SpecsTest, UnknownNameListsTheKnown) {
  EXPECT_THAT(LookupModel("llama"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("unknown model \"llama\""),
                             HasSubstr("llama3.1_8b"), HasSubstr("yi_34b"))));
  EXPECT_THAT(LookupDevice("H200"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("h100_sxm"), HasSubstr("rtx_4090"))));
}

TEST(SpecsTest, ReadsAUsersFile) {
  const std::string path =
      WriteFile("small.textproto",
                "\xEF\xBB\xBF"
                "num_layers: 2\r\nhidden_size: 64\r\n"
                "num_heads: 4\r\nnum_kv_heads: 2\r\n"
                "head_dim: 16\r\nintermediate_size: 128\r\n"
                "vocab_size: 1000");
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, LookupModel(path));
  EXPECT_EQ(model.num_layers(), 2);
  EXPECT_EQ(model.vocab_size(), 1000);
  EXPECT_EQ(model.name(), path);
}

TEST(SpecsTest, BadFiles) {
  EXPECT_THAT(LookupModel("/nonexistent/m.textproto"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/m.textproto")));
  EXPECT_THAT(
      LookupModel(
          WriteFile("typo.textproto", "num_layers: 2\nhiden_size: 64\n")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("typo.textproto:2: "), HasSubstr("hiden_size"),
                     HasSubstr("intermediate_size"))));
  EXPECT_THAT(LookupModel(WriteFile("empty.textproto", "")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_layers is 0")));
  EXPECT_THAT(
      LookupDevice(WriteFile("nan.textproto", "bf16_flops_per_s: nan\n")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("bf16_flops_per_s")));
}

TEST(SpecsTest, HeadsMustGroup) {
  ASSERT_OK_AND_ASSIGN(ModelSpec model, LookupModel("llama3.1_8b"));
  model.set_num_kv_heads(5);
  EXPECT_THAT(ValidateModel(model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no multiple of num_kv_heads")));
}

}  // namespace
}  // namespace interleave::sim
