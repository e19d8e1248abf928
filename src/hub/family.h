// A family of published models: how the folders of one `model_type` say what Plait says. One file each in families/.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "hub/config_json.h"

namespace plait::hub {

// How a published tensor lies in the piece of ours that it is. matrix: [all dims but the last, the last]. columns: [the
// first, all others]. vector: all dims in one.
enum class Form { matrix, columns, vector };

// One of our tensors, by its name behind "model.layers.N.", or its whole name: the published ones that lie in it one
// after another. "{e}" runs over the first dim of ours, all of `published` for each.
struct Naming {
  std::string_view ours;
  std::vector<std::string_view> published;
  Form form = Form::matrix;
};

struct PublishedFamily {
  std::string_view model_type;           // in config.json
  std::string_view class_name;           // in config.json's "architectures"
  const Architecture* architecture;      // of ours
  std::vector<Naming> names;             // beside those of all decoders
  void (*read)(ConfigJson&, Settings&);  // what config.json says of the family beside the decoder's keys
  void (*write)(const Config&, Json&);   // the same back; InputError for what the family cannot say
};

// One of our tensors: the published ones in the order in which they lie in it, each with its shape.
struct Published {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<Published> published_in(const PublishedFamily& family, const std::string& ours,
                                    std::span<const int64_t> shape);

// Tensors that say nothing: tables that every program computes itself.
bool says_nothing(std::string_view published);

// The keys of config.json that all decoders after Llama read, beside those of the family. InputError, one line, for
// what Plait does not compute.
Settings settings_of(const PublishedFamily& family, ConfigJson& json);

// InputError for an unknown model_type, which lists those that are known.
const PublishedFamily& family_of(ConfigJson& json);

// The family that says what this config says: that of `like` where it is one of several.
const PublishedFamily& family_of(const Config& config, std::string_view like);

// What config.json says of the config.
Json json_of(const PublishedFamily& family, const Config& config);

std::span<const PublishedFamily* const> all_families();

}  // namespace plait::hub
