// Llama and Mistral: no layer has experts.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

void read(ConfigJson&, Settings& s) { s.set("moe.every", int64_t{0}); }

void write_llama(const Config& c, Json&) {
  if (c.model.sliding_window > 0)
    input_error("llama has no sliding window: model.sliding_window = {} has no place in it", c.model.sliding_window);
}

void write_mistral(const Config& c, Json&) {
  if (c.model.attention_bias) input_error("mistral has no biases: model.attention_bias = true has no place in it");
}

}  // namespace

const PublishedFamily llama = {.model_type = "llama",
                               .class_name = "LlamaForCausalLM",
                               .architecture = &architectures::mixtral,
                               .names = {},
                               .read = read,
                               .write = write_llama};

const PublishedFamily mistral = {.model_type = "mistral",
                                 .class_name = "MistralForCausalLM",
                                 .architecture = &architectures::mixtral,
                                 .names = {},
                                 .read = read,
                                 .write = write_mistral};

}  // namespace plait::hub
