// Parts of a line: axes, places, types, and an op with its fields.
#pragma once
#include <functional>
#include <map>
#include <set>

#include "schedule/op.h"
#include "schedule/parse_line.h"

namespace plait {

// Reads what names axes of the mesh.
class TypeReader {
 public:
  TypeReader(const Mesh& mesh, Line& line) : mesh_(mesh), line_(line) {}

  Atom atom(std::string_view stop);
  Place place();
  Dim dim();
  std::vector<Dim> dims();
  Type type();

 private:
  Mark mark();
  Mark chunk(const std::string& text, size_t at);
  void kind(Type& type);
  void held(Type& type, Hold hold);

  const Mesh& mesh_;
  Line& line_;
};

// The op that a step names, with the fields that stand at `line` up to its types. `at`: the column of the name.
Op read_op(const Mesh& mesh, Line& line, const std::string& name, size_t at);

}  // namespace plait
