#include "sim/config/config.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "sim/cost/cost.pb.h"

namespace interleave::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SetFieldTest, SetsScalarsStringsAndEnumerations) {
  CostModelConfig config;
  EXPECT_OK(SetField("model", "qwen3_14b", &config));
  EXPECT_OK(SetField("roofline.constant_us=12.5", &config));
  EXPECT_OK(SetField("roofline.mixed_attention", "OVERLAPPED", &config));
  EXPECT_OK(SetField("tensor_parallel", "2", &config));
  EXPECT_EQ(config.model(), "qwen3_14b");
  EXPECT_EQ(config.roofline().constant_us(), 12.5);
  EXPECT_EQ(config.roofline().mixed_attention(), RooflineOptions::OVERLAPPED);
  EXPECT_EQ(config.tensor_parallel(), 2);
}

TEST(SetFieldTest, TheLastOneCounts) {
  CostModelConfig config;
  EXPECT_OK(SetField("tensor_parallel", "2", &config));
  EXPECT_OK(SetField("tensor_parallel", "4", &config));
  EXPECT_OK(SetField("roofline.constant_us", "1", &config));
  EXPECT_OK(SetField("profile.directory", "a \"b\"=c", &config));
  EXPECT_EQ(config.tensor_parallel(), 4);
  EXPECT_FALSE(config.has_roofline());
  EXPECT_EQ(config.profile().directory(), "a \"b\"=c");
}

TEST(SetFieldTest, MessagesAndRepeatedFields) {
  CostModelConfig config;
  EXPECT_OK(SetField("host_overhead", "{constant_us: 3}", &config));
  EXPECT_EQ(config.host_overhead().constant_us(), 3);
  EXPECT_OK(SetField("host_overhead", "per_sequence_us: 4", &config));
  EXPECT_EQ(config.host_overhead().constant_us(), 0);
  EXPECT_EQ(config.host_overhead().per_sequence_us(), 4);
  EXPECT_OK(SetField("profile.layers", "{layer: \"a\"}", &config));
  EXPECT_OK(SetField("profile.layers", "{layer: \"b\"}", &config));
  ASSERT_EQ(config.profile().layers_size(), 2);
  EXPECT_EQ(config.profile().layers(1).layer(), "b");
}

TEST(SetFieldTest, ListsTheFieldsThereAre) {
  CostModelConfig config;
  EXPECT_THAT(
      SetField("modle", "x", &config),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("there is no field \"modle\" in "
                               "CostModelConfig"),
                     HasSubstr("device, host_overhead, kernel_tables, "))));
  EXPECT_THAT(SetField("roofline.constant", "1", &config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"constant\" in RooflineOptions"),
                             HasSubstr("constant_us"))));
  EXPECT_THAT(SetField("model.name", "1", &config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has no fields of its own")));
  EXPECT_THAT(SetField("model", &config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("write field.path=value")));
}

TEST(SetFieldTest, RefusesValuesOfAnotherKind) {
  CostModelConfig config;
  EXPECT_THAT(
      SetField("tensor_parallel", "many", &config),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"tensor_parallel\" cannot be \"many\""),
                     HasSubstr("int32"))));
  EXPECT_THAT(
      SetField("tensor_parallel", "9999999999", &config),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out of range")));
  EXPECT_THAT(SetField("tensor_parallel", "1 model: \"x\"", &config),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(SetField("roofline.mixed_attention", "SOME", &config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its values are: SERIAL, OVERLAPPED")));
}

TEST(SpellOutDefaultsTest, FillsWhatDeclaresADefault) {
  CostModelConfig config;
  config.mutable_profile();
  config.mutable_profile()->add_layers();
  SpellOutDefaults(&config);
  EXPECT_TRUE(config.has_model());
  EXPECT_EQ(config.model(), "llama3.1_8b");
  EXPECT_TRUE(config.profile().layers(0).has_per_layer());
  EXPECT_TRUE(config.profile().has_chunk_mapping());
  // Declares none.
  EXPECT_FALSE(config.profile().has_directory());
  // Not there.
  EXPECT_FALSE(config.has_roofline());
  EXPECT_FALSE(config.has_host_overhead());
}

TEST(MakePathsAbsoluteTest, ChangesFileNamesOnly) {
  CostModelConfig config;
  config.set_model("llama3.1_8b");
  config.set_device("my/gpu.textproto");
  config.mutable_profile()->set_directory("/tables/../tables/h200");
  config.mutable_profile()->add_layers()->set_layer("a/b");
  MakePathsAbsolute(&config);
  EXPECT_EQ(config.model(), "llama3.1_8b");
  EXPECT_EQ(config.device(),
            (std::filesystem::current_path() / "my/gpu.textproto").string());
  EXPECT_EQ(config.profile().directory(), "/tables/h200");
  EXPECT_EQ(config.profile().layers(0).layer(), "a/b");
}

TEST(ConfigTextTest, ParsesBackToAnEqualMessage) {
  CostModelConfig config;
  config.set_model("a \"quoted\"\nname");
  config.mutable_roofline()->set_constant_us(0.1);
  SpellOutDefaults(&config);
  CostModelConfig parsed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(ConfigText(config),
                                                            &parsed));
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(config, parsed))
      << ConfigText(config);
}

}  // namespace
}  // namespace interleave::sim
