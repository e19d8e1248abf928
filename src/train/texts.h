// Texts and numbers between ranks, for agreeing before a run and telling after it.
#pragma once
#include <string>
#include <vector>

#include "wire/group.h"

namespace plait {

// Of the group's first member, at all of them. Every member calls it.
std::string text_of_first(wire::Group& group, const std::string& mine);

// Of all members, by place in the group, at all of them.
std::vector<std::string> texts_of_all(wire::Group& group, const std::string& mine);

// One number of each.
std::vector<uint64_t> numbers_of_all(wire::Group& group, uint64_t mine);

// By place in the group, then as given; every member gives as many.
std::vector<std::vector<double>> of_all_ranks(wire::Group& group, std::vector<double> mine);

}  // namespace plait
