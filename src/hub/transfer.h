// Whole models in and out: a folder of transformers becomes a run's folder, and a checkpoint such a folder.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hub/model.h"

namespace plait::hub {

using Progress = std::function<void(int64_t done, int64_t all)>;  // bytes
using Tell = std::function<void(const std::string& line)>;

struct Import {
  std::string from, to;
  Upcycling upcycling = {};
  Tell tell = {};
  Progress progress = {};
};

// Makes the folder `to` with a checkpoint of step 0 (weights in their own types, bit by bit), config.toml to start
// from, and in published/ what it came with: config.json, the tokenizer's files. InputError where `to` holds something;
// on any failure nothing of it stays.
void import_model(const Import& import);

struct Export {
  std::string from;  // a checkpoint, or a run's folder (its latest)
  std::string to;
  std::string dtype = {};   // of all weights, "bfloat16"; empty: as they were published, else as they are
  int64_t shard_bytes = 0;  // 0: one file
  Progress progress = {};
};

// Makes a folder that transformers reads. What the model came with, found beside the checkpoint or where train.init
// says, goes along as it was. InputError for a model that transformers has no class for.
void export_model(const Export& plan);

}  // namespace plait::hub
