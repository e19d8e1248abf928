// Edits of a forward schedule by someone who errs, or who knows better: the tests ask what `check` says to them.
#pragma once
#include <string_view>

#include "passes/testing/families.h"

namespace plait::oracle {

// The index of the nth step of this title; -1 is the last one. Throws ContractError where there is none.
int find_step(const Schedule& schedule, std::string_view title, int nth = 0);

// Later readers of `old` read `now`, outputs too.
void read_instead(Schedule& schedule, ValueId old, ValueId now, int from_step = 0);

// Removes a step of one result; its operand is read instead.
void drop_step(Model& model, int index);

Legs& legs_of(Schedule& schedule, int index);

// Puts a step before `index` and returns its result.
ValueId insert_step(Schedule& schedule, int index, Op op, std::vector<ValueId> in);

// Puts a step of one operand after `index`, between its result and all later readers.
void insert_after(Model& model, int index, Op op);

}  // namespace plait::oracle
