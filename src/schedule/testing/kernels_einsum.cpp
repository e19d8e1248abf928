// Products over named labels. Over rows, a label of the prefix (an expert) is not looped over: each row's cell says it.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {
namespace {

using Strides = std::array<int64_t, 3>;  // in a, b and the result

struct Label {
  std::string name;
  int64_t size = 1;
  Strides stride = {0, 0, 0};
};

class Labels {
 public:
  explicit Labels(std::vector<Dim> prefix) {
    for (const Dim& dim : prefix) cells.push_back({dim.name});
  }

  void read(const Type& type, const Array& x, int array) {
    const size_t jagged = std::max(type.jagged_index(), 0);
    for (size_t d = jagged; d < type.dims.size(); ++d) {
      const std::string& name = type.dims[d].name;
      std::vector<Label>& among = find(cells, name) ? cells : loops;
      Label* label = find(among, name);
      if (!label) label = &among.emplace_back(Label{name, x.shape[d - jagged]});
      label->size = x.shape[d - jagged];
      label->stride[array] = x.stride(d - jagged);
    }
  }

  std::vector<Label> cells;  // fixed by the row
  std::vector<Label> loops;

 private:
  static Label* find(std::vector<Label>& labels, const std::string& name) {
    const auto it = std::find_if(labels.begin(), labels.end(), [&](const Label& l) { return l.name == name; });
    return it == labels.end() ? nullptr : &*it;
  }
};

struct Pointers {
  const double *a, *b;
  double* y;
  Pointers at(const Strides& stride, int64_t i) const {
    return {a + stride[0] * i, b + stride[1] * i, y + stride[2] * i};
  }
};

void product(const std::vector<Label>& loops, size_t depth, Pointers p) {
  if (depth == loops.size()) {
    *p.y += *p.a * *p.b;
    return;
  }
  const Label& label = loops[depth];
  for (int64_t i = 0; i < label.size; ++i) product(loops, depth + 1, p.at(label.stride, i));
}

// For each local row the coordinates of its cell, in the order of the prefix.
std::vector<std::vector<int64_t>> row_cells(const Array& table) {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t cell = 0; cell < table.size(); ++cell) {
    std::vector<int64_t> at;
    for (size_t d = 0; d < table.shape.size(); ++d) at.push_back(cell / table.stride(d) % table.shape[d]);
    rows.insert(rows.end(), static_cast<size_t>(table[cell]), at);
  }
  return rows;
}

}  // namespace

void compute(const Call& c, const Einsum&) {
  const int rows_operand = c.type(0).jagged_index() >= 0 ? 0 : c.type(1).jagged_index() >= 0 ? 1 : -1;
  Labels labels(rows_operand < 0 ? std::vector<Dim>{} : c.type(rows_operand).prefix());
  labels.read(c.type(0), c.x(0), 0);
  labels.read(c.type(1), c.x(1), 1);
  labels.read(*c.out_types[0], c.y(), 2);
  const Pointers start{c.x(0).data.data(), c.x(1).data.data(), c.y().data.data()};
  const bool by_cell =
      std::any_of(labels.cells.begin(), labels.cells.end(), [](const Label& l) { return l.stride != Strides{}; });
  if (!by_cell) return product(labels.loops, 0, start);
  expects(c.in.size() == 3, "a product by cell has a table: lower the schedule");
  const auto rows = row_cells(c.x(2));
  const std::string& jagged = c.type(rows_operand).dims[c.type(rows_operand).jagged_index()].name;
  const auto row =
      std::find_if(labels.loops.begin(), labels.loops.end(), [&](const Label& l) { return l.name == jagged; });
  expects(static_cast<int64_t>(rows.size()) == row->size, "the table of a product counts its rows");
  const Strides row_stride = row->stride;
  labels.loops.erase(row);
  for (size_t i = 0; i < rows.size(); ++i) {
    Pointers p = start.at(row_stride, static_cast<int64_t>(i));
    for (size_t d = 0; d < labels.cells.size(); ++d) p = p.at(labels.cells[d].stride, rows[i][d]);
    product(labels.loops, 0, p);
  }
}

}  // namespace plait::oracle
