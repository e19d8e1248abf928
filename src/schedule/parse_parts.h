// Parts of a line: axes, places, types, and an op with its fields.
#pragma once
#include <functional>
#include <map>
#include <set>

#include "schedule/known.h"
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

// What the fields of an op may name.
struct OpScope {
  const Mesh& mesh;
  const Known& known;
};
// What a step calls its op, and the column where.
struct OpTitle {
  const std::string& name;
  size_t at = 0;
};
// The op with the fields that stand at `line` up to its types.
Op read_op(const OpScope& scope, Line& line, const OpTitle& title);

}  // namespace plait
