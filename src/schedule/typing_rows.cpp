// Types of rows: counted, made of tokens, read back. The tokens of a routing are [T, ..], or rows that another routing
// made.
#include <algorithm>

#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
Type integer(Type t, Role role, const std::string& routing) {
  t.grad = false;
  t.dtype = Dtype::integer;
  t.role = role;
  t.routing = routing;
  return t;
}

Type like(const Type& t, std::vector<Dim> dims, std::vector<Hold> holds) {
  Type out = t;
  out.dims = std::move(dims);
  out.holds = std::move(holds);
  return out;
}

void expect_same_type(const StepTyping& step, size_t a, size_t b) {
  if (step.type(a).dims != step.type(b).dims)
    step.fault(b, fmt::format("is {}, %{} is {}", to_string(step.mesh, step.type(b)), step.in[a].name,
                              to_string(step.mesh, step.type(a))));
}

std::vector<Dim> table_dims(const Mesh& mesh, const Routing& routing, const Type& tokens, int chunk) {
  if (tokens.jagged_index() >= 0) {  // the cells of these rows, by expert instead of by node
    std::vector<Dim> cells = tokens.prefix();
    for (Dim& dim : cells)
      if (dim.name == "E") dim.size = routing.experts;
    return cells;
  }
  const Dim& t = *tokens.find("T");
  std::vector<Dim> dims;
  const int parts = static_cast<int>(routing.chunks);
  if (parts > 1 && chunk == kWhole) dims.push_back({"h", parts});
  if (parts > 1 && chunk != kWhole) dims.push_back({"h", 1, {{.split = routing.id, .part = chunk, .parts = parts}}});
  dims.push_back({"E", routing.experts});
  for (Atom atom : mesh.atoms()) {
    dims.push_back({group_dim(atom), mesh.size(atom)});
    if (t.holds(atom)) dims.back().stack = {{.atom = atom}};
  }
  return dims;
}

namespace {

// Expected rows of a cell by expert, from those of a cell by node: a token is in at most min(K, nodes) cells by node.
int64_t rows_within(const Routing& routing, const Type& tokens) {
  const int64_t nodes = tokens.find("E")->size, experts = std::max<int64_t>(routing.experts / nodes, 1);
  const int64_t part = std::min(routing.top_k, nodes) * experts;
  return (tokens.dims[tokens.jagged_index()].size * routing.top_k + part - 1) / part;
}

}  // namespace

std::vector<Dim> row_dims(const StepTyping& step, const Routing& routing, const Type& tokens) {
  if (const int j = tokens.jagged_index(); j >= 0) {
    if (!tokens.has("E")) step.fault(0, "has rows without a dim E");
    std::vector<Dim> dims = table_dims(step.mesh, routing, tokens, kWhole);
    dims.push_back({"C", rows_within(routing, tokens), {}, routing.id});
    return dims;
  }
  const Dim* t = tokens.find("T");
  if (!t) step.fault(0, "has no token dim T");
  if (!routing.capacity) {
    std::vector<Dim> dims = table_dims(step.mesh, routing, tokens, tokens.chunk);
    const int64_t cells = routing.experts * step.mesh.ranks() * routing.chunks;
    dims.push_back({"C", (t->size * routing.top_k + cells - 1) / cells, {}, routing.id});
    return dims;
  }
  const int64_t local = local_size(step.mesh, *t);
  if (!routing.group || local % routing.group)
    step.fault(0, fmt::format("a rank gates {} tokens, which gate groups of {} cut", local, routing.group));
  std::vector<Dim> dims = {{"E", routing.experts}};
  for (const Mark& mark : t->stack)
    if (mark.is_atom()) dims.push_back({group_dim(mark.atom), step.mesh.size(mark.atom), {mark}});
  dims.push_back({"W", local / routing.group});
  dims.push_back({"C", routing.capacity});
  return dims;
}

namespace {

Type places(const Type& idx, const Routing& routing, int chunk) {
  Type t = integer(idx, Role::places, routing.id);
  t.chunk = chunk;
  return t;
}

void expect_routes(const StepTyping& step, const Routing& routing) {
  expect_same_type(step, 0, 1);
  for (size_t i : {0, 1})
    if (step.type(i).dtype != Dtype::integer || !step.type(i).has("K") || step.type(i).find("K")->size != routing.top_k)
      step.fault(i, fmt::format("is not the routes [.., K={}] of a gate", routing.top_k));
  const Dim* tokens = step.type(0).find("T");
  if (!tokens) step.fault(0, "has no token dim T");
  for (const Mark& mark : tokens->stack)
    if (!mark.is_atom()) step.fault(0, "the token dim is chunked");
}

// The token stack must be a run of the mesh's atoms from the slowest: then digits are cells in token order.
void expect_token_order(const StepTyping& step) {
  const Dim& t = *step.type(0).find("T");
  const std::vector<Atom> atoms = step.mesh.atoms();
  for (size_t i = 0; i < t.stack.size(); ++i)
    if (i >= atoms.size() || t.stack[i].atom != atoms[i])
      step.fault(0, t.stack[i].atom, "tokens must be split by the slowest digits first");
}

// The dims that say which token: T, or the cells and C of rows.
std::vector<Dim> token_dims(const Type& places) { return {places.dims.begin(), places.dims.end() - 1}; }

void expect_tokens(const StepTyping& step, size_t places, size_t operand) {
  if (step.type(places).has("T")) return expect_same_dim(step, step.in[places], step.in[operand], "T");
  const std::vector<Dim> want = token_dims(step.type(places)), &have = step.type(operand).dims;
  if (have.size() < want.size() || !std::equal(want.begin(), want.end(), have.begin()))
    step.fault(operand, fmt::format("is {}, the places are of rows {}: move both alike",
                                    to_string(step.mesh, step.type(operand)), to_string(step.mesh, want)));
}

// Places, and what else an encode, decode or pair must agree with them on.
struct RoutedOperands {
  size_t places;  // operand index
  std::vector<Dim> rows;
};

RoutedOperands routed(const StepTyping& step, const Routing& routing) {
  size_t at = step.in.size();
  for (size_t i = 0; i < step.in.size(); ++i)
    if (step.type(i).role == Role::places) at = i;
  if (at == step.in.size()) step.fault(step.in.size() - 1, "is not the places of a count or arrange");
  if (step.type(at).routing != routing.id)
    step.fault(at, fmt::format("holds places of routing {}, this {} is of {}", step.type(at).routing, name(step.op),
                               routing.id));
  expect_dims(step, at, 2);
  return {at, row_dims(step, routing, step.type(at))};
}

void expect_rows(const StepTyping& step, size_t operand, const std::vector<Dim>& want) {
  const Type& rows = step.type(operand);
  if (rows.dims.size() >= want.size() && std::equal(want.begin(), want.end(), rows.dims.begin())) return;
  for (const Dim& dim : want) {
    const Dim* have = rows.find(dim.name);
    for (Atom atom = 0; have && atom < step.mesh.num_atoms(); ++atom)
      if (dim.holds(atom) != have->holds(atom))
        step.fault(operand, atom,
                   fmt::format("{} needs the rows back as {}, they are {}", name(step.op), to_string(step.mesh, want),
                               to_string(step.mesh, rows.dims)));
  }
  step.fault(operand, fmt::format("{} needs rows {}, this is {}", name(step.op), to_string(step.mesh, want),
                                  to_string(step.mesh, rows.dims)));
}

void expect_table_of(const StepTyping& step, size_t operand, const Routing& routing) {
  const Type& table = step.type(operand);
  const std::vector<Dim> want = table_dims(step.mesh, routing, step.type(operand - 1), step.type(operand - 1).chunk);
  if (table.role != Role::table || table.routing != routing.id || table.dims != want)
    step.fault(operand, fmt::format("is {}, needed is the table of {} as {}", to_string(step.mesh, table), routing.id,
                                    to_string(step.mesh, want)));
}

std::vector<Operand> values(const StepTyping& step, size_t count) {
  return {step.in.begin(), step.in.begin() + static_cast<long>(count)};
}

void expect_weight(const StepTyping& step, size_t operand, size_t places) {
  if (step.type(operand).dims != step.type(places).dims)
    step.fault(operand, fmt::format("weights are {}, the places {}", to_string(step.mesh, step.type(operand)),
                                    to_string(step.mesh, step.type(places))));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Nodes& op) {
  expect_operands(step, 2, 2);
  expect_same_type(step, 0, 1);
  expect_dims(step, 0, 1);
  if (op.experts % op.nodes)
    step.fault(0, fmt::format("chooses among {} experts, which do not divide by {} nodes", op.experts, op.nodes));
  const Type kept = integer(step.type(0));
  Type nodes = kept;
  nodes.dims.back().size = std::min(nodes.dims.back().size, op.nodes);
  return {nodes, nodes, kept};
}

namespace {

// [m..]: a column for each rank of an atom that the tokens are split over.
std::vector<Dim> column_dims(const Mesh& mesh, const Type& tokens) {
  std::vector<Dim> dims;
  for (Atom atom : mesh.atoms())
    if (tokens.find("T")->holds(atom)) dims.push_back({fmt::format("m{}", atom), mesh.size(atom), {{.atom = atom}}});
  return dims;
}

void expect_columns(const StepTyping& step, size_t operand) {
  const Type& most = step.type(operand);
  const std::vector<Dim> want = column_dims(step.mesh, step.type(0));
  bool same = most.dtype == Dtype::integer && most.dims.size() == want.size();
  for (size_t d = 0; same && d < want.size(); ++d)
    same = most.dims[d].name == want[d].name && most.dims[d].size == want[d].size;
  if (!same)
    step.fault(operand, fmt::format("is {}, needed are the columns {} of a busiest", to_string(step.mesh, most),
                                    to_string(step.mesh, want)));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Busiest& op) {
  expect_operands(step, 2, 2);
  expect_routes(step, op.routing);
  const std::vector<Dim> dims = column_dims(step.mesh, step.type(0));
  return {like(integer(step.type(0)), dims, step.type(0).holds)};
}

std::vector<Type> infer_op(const StepTyping& step, const CountWithin& op) {
  expect_operands(step, 1, 2);
  const Type& kept = step.type(0);
  const Dim* nodes = kept.find("E");
  if (kept.jagged_index() < 0 || !nodes || kept.dtype != Dtype::integer || kept.dims.back().name != "K" ||
      kept.dims.back().size != op.routing.top_k)
    step.fault(0, fmt::format("is not rows of the routes [.., K={}] of a gate", op.routing.top_k));
  if (op.routing.experts % nodes->size)
    step.fault(0, fmt::format("comes from {} nodes, which do not divide {} experts", nodes->size, op.routing.experts));
  if (step.in.size() == 2) {
    const Type& table = step.type(1);
    const std::string& routing = kept.dims[kept.jagged_index()].table;
    if (table.role != Role::table || table.routing != routing || table.dims != kept.prefix())
      step.fault(1, fmt::format("is {}, needed is the table of {} as {}", to_string(step.mesh, table), routing,
                                to_string(step.mesh, kept.prefix())));
  }
  Type table = integer(kept, Role::table, op.routing.id);
  table.dims = table_dims(step.mesh, op.routing, kept, kWhole);
  for (Hold& hold : table.holds)
    if (hold != Hold::S) hold = Hold::I;
  return {table, places(kept, op.routing, 0)};
}

std::vector<Type> infer_op(const StepTyping& step, const Count& op) {
  expect_operands(step, 2, 3);
  expect_routes(step, op.routing);
  if (step.in.size() == 3) expect_columns(step, 2);
  expect_token_order(step);
  Type table = integer(step.type(0), Role::table, op.routing.id);
  table.dims = table_dims(step.mesh, op.routing, step.type(0), kWhole);
  for (Hold& hold : table.holds)
    if (hold != Hold::S) hold = Hold::I;
  std::vector<Type> out = {table};
  for (int i = 0; i < op.routing.chunks; ++i) out.push_back(places(step.type(0), op.routing, i));
  return out;
}

std::vector<Type> infer_op(const StepTyping& step, const Arrange& op) {
  expect_operands(step, 2, 2);
  expect_routes(step, op.routing);
  row_dims(step, op.routing, step.type(0));
  return {places(step.type(0), op.routing, 0)};
}

std::vector<Type> infer_op(const StepTyping& step, const Encode& op) {
  expect_operands(step, 2, 4);
  const RoutedOperands r = routed(step, op.routing);
  if (r.places == 0 || r.places > 2) step.fault(0, "encode takes x, [weight], places");
  expect_tokens(step, r.places, 0);
  expect_dims(step, 0, token_dims(step.type(r.places)).size());
  if (r.places == 2) expect_weight(step, 1, 2);
  if (r.places + 1 < step.in.size()) expect_table_of(step, r.places + 1, op.routing);
  std::vector<Dim> dims = r.rows;
  const Type& x = step.type(0);
  const auto tokens = static_cast<long>(token_dims(step.type(r.places)).size());
  dims.insert(dims.end(), x.dims.begin() + tokens, x.dims.end());
  std::vector<Operand> in = values(step, r.places + 1);
  return {like(x, dims, holds(step, {.in = in, .out = names(dims), .label = token_label}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Decode& op) {
  expect_operands(step, 2, 3);
  const RoutedOperands r = routed(step, op.routing);
  if (r.places == 0 || r.places > 2) step.fault(0, "decode takes rows, [weight], places");
  expect_rows(step, 0, r.rows);
  if (r.places == 2) expect_weight(step, 1, 2);
  const Type& rows = step.type(0);
  std::vector<Dim> dims = token_dims(step.type(r.places));
  dims.insert(dims.end(), rows.dims.begin() + static_cast<long>(r.rows.size()), rows.dims.end());
  return {like(rows, dims, holds(step, {.in = values(step, r.places + 1), .out = names(dims), .label = token_label}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Pair& op) {
  expect_operands(step, 3, 3);
  const RoutedOperands r = routed(step, op.routing);
  if (r.places != 2) step.fault(0, "pair takes x, rows, places");
  expect_tokens(step, 2, 0);
  expect_rows(step, 1, r.rows);
  const std::vector<Dim>& dims = step.type(2).dims;
  return {like(step.type(0), dims, holds(step, {.in = step.in, .out = names(dims), .label = token_label}))};
}

}  // namespace plait
