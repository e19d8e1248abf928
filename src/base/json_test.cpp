#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/errors.h"

namespace plait {
namespace {

std::string message(const auto& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Json, writes_one_object_in_the_order_of_the_calls) {
  const std::string line = JsonLine{}
                               .add("step", 3)
                               .add("loss", 1.25)
                               .add("on", true)
                               .add("name", "a \"b\"\n\\\x01")
                               .add("n", size_t{7})
                               .str();
  EXPECT_EQ(line, R"({"step": 3, "loss": 1.25, "on": true, "name": "a \"b\"\n\\\u0001", "n": 7})");
  EXPECT_EQ(JsonLine{}.str(), "{}");
}

TEST(Json, lists_of_numbers_and_of_objects_read_back) {
  const std::vector<double> share = {0.25, 0.75, NAN};
  const std::vector<JsonLine> layers = {JsonLine{}.add("layer", 1).add("share", std::span(share).first(2)), JsonLine{}};
  const std::string line = JsonLine{}.add("layers", layers).add("all", share).str();
  EXPECT_EQ(line, R"({"layers": [{"layer": 1, "share": [0.25, 0.75]}, {}], "all": [0.25, 0.75, null]})");
  const JsonObject read = JsonObject::parse(R"({"layers": [{"layer": 1, "share": [0.25, 3]}, {}]})", "m.jsonl");
  EXPECT_EQ(read.objects("layers").size(), 2u);
  EXPECT_EQ(read.objects("layers")[0].integer("layer"), 1);
  EXPECT_EQ(read.objects("layers")[0].numbers("share"), (std::vector<double>{0.25, 3}));
  EXPECT_EQ(message([&] { read.objects("layers")[0].numbers("layer"); }),
            "m.jsonl: \"layer\" must be a list of numbers");
  EXPECT_NE(message([] { JsonObject::parse(R"({"a": [1, "b"]})", "m.jsonl"); }).find("m.jsonl: \"a\" must be"),
            std::string::npos);
}

TEST(Json, what_json_lacks_becomes_null) {
  const std::string line = JsonLine{}.add("a", NAN).add("b", -std::numeric_limits<double>::infinity()).str();
  EXPECT_EQ(line, R"({"a": null, "b": null})");
  EXPECT_TRUE(std::isnan(JsonObject::parse(line, "x").number("a")));
}

TEST(Json, doubles_come_back_to_the_same_bits) {
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, -0.0, 123456789012345678.0}) {
    const auto object = JsonObject::parse(JsonLine{}.add("x", value).str(), "x");
    EXPECT_EQ(object.number("x"), value);
  }
  EXPECT_EQ(JsonObject::parse(JsonLine{}.add("x", int64_t{1} << 62).str(), "x").integer("x"), int64_t{1} << 62);
}

TEST(Json, reads_words_back) {
  const auto object = JsonObject::parse(JsonLine{}.add("w", "tab\t, quote \", é").str(), "x");
  EXPECT_EQ(object.text("w"), "tab\t, quote \", é");
  EXPECT_TRUE(object.has("w"));
  EXPECT_FALSE(object.has("v"));
}

TEST(Json, a_fault_names_the_file_and_the_key) {
  const auto object = JsonObject::parse(R"({"a": 1.5, "w": "x"})", "state.json");
  EXPECT_EQ(message([&] { object.number("b"); }), "state.json: \"b\" is missing");
  EXPECT_EQ(message([&] { object.integer("a"); }), "state.json: \"a\" must be an integer");
  EXPECT_EQ(message([&] { object.number("w"); }), "state.json: \"w\" must be a number");
  EXPECT_EQ(message([&] { object.text("a"); }), "state.json: \"a\" must be a word in quotes");
  EXPECT_EQ(message([] { JsonObject::parse("{\"a\": 1", "state.json"); }), "state.json: expected one JSON object");
  EXPECT_EQ(message([] { JsonObject::parse("{\"a\": {}}", "s"); }),
            "s: \"a\" must be a number, a word, or a list of numbers or of objects");
}

}  // namespace
}  // namespace plait
