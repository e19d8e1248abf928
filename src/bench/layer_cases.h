// What `plait bench layer` measures: the shapes at each layout, the families, the gates.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace plait {

struct LayerCase {
  std::string part;           // "shapes", "families" or "gates": one table each
  int64_t shape = 1;          // counts from 1
  std::string title, layout;  // of the shape: "2048 x 512, 8 experts of 2048, top-2"; "1 rank x 2"
  std::string family, gate;
  Config config;
};

struct CaseChoice {
  std::string part;                    // empty: all
  int64_t shape = 0;                   // of them only this one; 0: all that a part has
  std::string layout, family, gate;    // likewise; empty: all
  std::vector<std::string> overrides;  // of every case: "section.key=value"
};

// Throws InputError where a choice names nothing or an override does not fit.
std::vector<LayerCase> layer_cases(const CaseChoice& choice);

}  // namespace plait
