// Glue between the ops of experts and their kernels.
#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "gates/all/kernel.h"
#include "gates/hash/kernel.h"
#include "gates/hash/record.h"
#include "gates/noisy_topk/kernel.h"
#include "kernels/cpu/dispatch.h"
#include "run/kernels.h"
#include "schedule/draws.h"

namespace plait {
namespace {

kernels::RouteOptions options(const Route& r) {
  return {.gate = r.gate,
          .normalize = r.normalize,
          .drop = r.drop,
          .top_k = r.top_k,
          .capacity = r.capacity,
          .group = r.group,
          .rule = r.rule};
}

// What a route reads after logits and mask. `first`: the global index of this rank's first token.
kernels::GateExtras extras(const Route& op, Call& call, int64_t first) {
  kernels::GateExtras extras;
  if (op.gate->bias) extras.bias_E = call.in(2);
  if (!op.draws()) return extras;
  const int64_t experts = call.in(0).size(-1), step = *call.in(call.num_in() - 1).const_data_ptr<int64_t>();
  const auto draws = [&](Draw purpose) { return Draws{draw_key(step, op.rule.stream, purpose), first, experts}; };
  extras.priority = draws(Draw::priority);
  extras.sample = draws(Draw::sample);
  return extras;
}

std::vector<int64_t> chain(std::vector<int64_t> front, at::IntArrayRef back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

// [T, ..] as [T, D]; the values of a row in one dim.
at::Tensor flat(const at::Tensor& x, int64_t leading) {
  int64_t columns = 1;
  for (int64_t d = leading; d < x.dim(); ++d) columns *= x.size(d);
  return x.view({columns ? x.numel() / columns : 0, columns});
}

int64_t total(const at::Tensor& table) {
  const int64_t* counts = table.const_data_ptr<int64_t>();
  int64_t n = 0;
  for (int64_t i = 0; i < table.numel(); ++i) n += counts[i];
  return n;
}

int64_t greatest(const at::Tensor& counts) {
  const int64_t* first = counts.const_data_ptr<int64_t>();
  return *std::max_element(first, first + counts.numel());
}

// How many dims of a buffer count rows: one for ragged rows, [E, g.., W, C] of a padded buffer.
int64_t row_dims(const Type& rows) {
  if (rows.jagged_index() >= 0) return 1;
  int64_t d = 0;
  while (rows.dims[d].name != "C") ++d;
  return d + 1;
}

}  // namespace

Kernel prepare(const Route& op, const StepTypes& types) {
  const int64_t first = types.range(*types.in[0], "T").first;
  return [op, first, o = options(op), shape = types.shape(*types.out[0])](Call& call) {
    const at::Tensor& logits = call.in(0);
    const at::Tensor weight = call.make(0, shape, logits.scalar_type());
    kernels::route(logits, call.in(1), o, {weight, call.make(1, shape, at::kLong), call.make(2, shape, at::kLong)},
                   extras(op, call, first));
  };
}

Kernel prepare(const HashRoute& op, const StepTypes& types) {
  const kernels::RouteOptions options{.gate = &hash_route,
                                      .drop = op.capacity ? Drop::position : Drop::none,
                                      .top_k = op.top_k,
                                      .capacity = op.capacity,
                                      .group = op.group};
  return
      [=, experts = op.experts, dtype = types.scalar(*types.out[0]), shape = types.shape(*types.out[0])](Call& call) {
        const at::Tensor weight = call.make(0, shape, dtype);
        kernels::route_by_hash({call.in(0), call.in(1), experts}, options,
                               {weight, call.make(1, shape, at::kLong), call.make(2, shape, at::kLong)});
      };
}

Kernel prepare(const Jitter& op, const StepTypes& types) {
  const Range tokens = types.range(*types.in[0], "T"), width = types.range(*types.in[0], types.in[0]->dims[1].name);
  const int64_t columns = types.in[0]->dims[1].size;
  return [=](Call& call) {
    const at::Tensor& x = call.in(0);
    const uint64_t key = draw_key(*call.in(1).const_data_ptr<int64_t>(), op.stream, Draw::jitter);
    kernels::jitter(x, op.amount, {key, tokens.first, columns, width.first}, call.make(0, x.sizes(), x.scalar_type()));
  };
}

Kernel prepare(const RouteGrad& op, const StepTypes&) {
  return [o = options(op.route)](Call& call) {
    const at::Tensor& logits = call.in(0);
    kernels::route_grad({logits, call.in(1), call.in(2), call.in(3)}, o,
                        call.make(0, logits.sizes(), logits.scalar_type()));
  };
}

namespace {

// Of sums for every `group` tokens, held as `sums`.
kernels::TokenGroups token_groups(const StepTypes& types, const Type& sums, int64_t group) {
  if (group == 0) return {};
  return {group, types.range(*types.in[0], "T").first - types.range(sums, "W").first * group};
}

}  // namespace

Kernel prepare(const GateStats& op, const StepTypes& types) {
  const kernels::StatsOptions o{token_groups(types, *types.out[0], op.group), op.score};
  return [o, psum = types.shape(*types.out[0]), zsum = types.shape(*types.out[1])](Call& call) {
    const at::ScalarType dtype = call.in(0).scalar_type();
    kernels::gate_stats(call.in(0), call.in(1), {call.make(0, psum, dtype), call.make(1, zsum, dtype)}, o);
  };
}

Kernel prepare(const GateStatsGrad& op, const StepTypes& types) {
  const kernels::StatsOptions o{token_groups(types, *types.in[2], op.group), op.score};
  return [o](Call& call) {
    const at::Tensor& logits = call.in(0);
    kernels::gate_stats_grad(logits, call.in(1), {{call.in(2), call.in(3)}, o},
                             call.make(0, logits.sizes(), logits.scalar_type()));
  };
}

Kernel prepare(const Load& op, const StepTypes& types) {
  const kernels::TokenGroups groups = token_groups(types, *types.out[0], op.group);
  return [op, groups, dtype = types.scalar(*types.out[0]), shape = types.shape(*types.out[0])](Call& call) {
    const auto counted = [&](const at::Tensor& x) { return op.choices ? x.narrow(1, 0, op.choices).contiguous() : x; };
    const at::Tensor idx = counted(call.in(0)), slot = counted(call.in(1));
    kernels::expert_load(idx, call.make(0, shape, dtype), groups);
    kernels::expert_load(at::where(slot.ge(0), idx, -1), call.make(1, shape, dtype), groups);
  };
}

Kernel prepare(const Noise& op, const StepTypes& types) {
  return [op, first = types.range(*types.in[0], "T").first](Call& call) {
    const at::Tensor& logits = call.in(0);
    const uint64_t key = draw_key(*call.in(2).const_data_ptr<int64_t>(), op.stream, Draw::noise);
    kernels::add_noise({logits, call.in(1)}, {key, first, logits.size(1)},
                       call.make(0, logits.sizes(), logits.scalar_type()));
  };
}

Kernel prepare(const NoiseGrad& op, const StepTypes& types) {
  return [op, first = types.range(*types.in[0], "T").first](Call& call) {
    const at::Tensor& spread = call.in(0);
    const uint64_t key = draw_key(*call.in(1).const_data_ptr<int64_t>(), op.stream, Draw::noise);
    kernels::noise_grad(spread, call.in(2), {key, first, spread.size(1)},
                        call.make(0, spread.sizes(), spread.scalar_type()));
  };
}

Kernel prepare(const NoisyStats& op, const StepTypes&) {
  return [op](Call& call) {
    const at::Tensor& noisy = call.in(2);
    const auto sums = [&](size_t i) { return call.make(i, {noisy.size(1)}, noisy.scalar_type()); };
    const at::Tensor importance = sums(0);
    kernels::noisy_stats({call.in(0), call.in(1), noisy}, call.in(3), op.top_k, {importance, sums(1)});
  };
}

Kernel prepare(const NoisyStatsGrad& op, const StepTypes&) {
  return [op](Call& call) {
    std::vector<at::Tensor> out;
    for (size_t i = 0; i < 3; ++i) out.push_back(call.make(i, call.in(i).sizes(), call.in(i).scalar_type()));
    kernels::noisy_stats_grad({call.in(0), call.in(1), call.in(2)}, call.in(3), {op.top_k, {call.in(4), call.in(5)}},
                              {out[0], out[1], out[2]});
  };
}

// Operands importance, load, share.
Kernel prepare(const Variation& op, const StepTypes&) {
  return [op](Call& call) {
    const double both = kernels::squared_variation(call.in(0)) + kernels::squared_variation(call.in(1));
    call.make(0, {}, call.in(0).scalar_type()).copy_(call.in(2) * (op.coef / 2 * both));
  };
}

// Operands importance, load, share, dloss.
Kernel prepare(const VariationGrad& op, const StepTypes&) {
  return [op](Call& call) {
    const double scale = op.coef / 2 * (call.in(2) * call.in(3)).item<double>();
    for (size_t i = 0; i < 2; ++i)
      kernels::squared_variation_grad(call.in(i), scale, call.make(i, call.in(i).sizes(), call.in(i).scalar_type()));
  };
}

Kernel prepare(const BalanceBias& op, const StepTypes&) {
  return [op](Call& call) {
    const at::Tensor bias = call.in(0);
    const bool skipped = call.num_in() == 3 && std::isnan(*call.in(2).const_data_ptr<double>());
    if (!skipped) kernels::balance_bias(call.in(1), op.rate, bias);
    call.alias(0, 0, bias);
  };
}

namespace {

// chosen / (the real tokens of its group); of a single group they are those of the micro-batch.
at::Tensor share_of_tokens(const at::Tensor& chosen, const at::Tensor& inv, int64_t top_k) {
  if (chosen.dim() == 1) return chosen * inv;
  const at::Tensor routes = chosen.sum(1, true);
  return chosen * static_cast<double>(top_k) / routes.clamp_min(1e-6);
}

}  // namespace

// Operands psum, chosen, zsum, inv_tokens, share.
Kernel prepare(const Balance& op, const StepTypes&) {
  return [op](Call& call) {
    const at::Tensor &psum = call.in(0), &inv = call.in(3);
    const double per_choice = static_cast<double>(psum.size(-1)) / static_cast<double>(op.top_k);
    const at::Tensor loads = share_of_tokens(call.in(1), inv, op.top_k);
    const at::Tensor loss = (psum * loads).sum() * (op.aux * per_choice) * inv + call.in(2).sum() * (op.z * inv);
    call.make(0, {}, psum.scalar_type()).copy_(loss * call.in(4));
  };
}

// Operands chosen, inv_tokens, share, dloss.
Kernel prepare(const BalanceGrad& op, const StepTypes& types) {
  return [op, zsum = types.shape(*types.out[1])](Call& call) {
    const at::Tensor &chosen = call.in(0), &inv = call.in(1), weight = call.in(2) * call.in(3) * inv;
    const double per_choice = static_cast<double>(chosen.size(-1)) / static_cast<double>(op.top_k);
    call.make(0, chosen.sizes(), chosen.scalar_type())
        .copy_(share_of_tokens(chosen, inv, op.top_k) * (weight * (op.aux * per_choice)));
    call.make(1, zsum, chosen.scalar_type()).copy_(weight * op.z);
  };
}

Kernel prepare(const Count& op, const StepTypes& types) {
  const std::vector<int64_t> shape = types.shape(*types.out[0]), places = types.shape(*types.out[1]);
  return [shape, places, routing = op.routing](Call& call) {
    kernels::RowCounts counts{call.make(0, shape, at::kLong).view({routing.chunks, routing.experts, -1}), {}};
    for (int64_t h = 0; h < routing.chunks; ++h) counts.rows_TK.push_back(call.make(h + 1, places, at::kLong));
    kernels::count_rows({call.in(0), call.in(1)}, counts, call.num_in() > 2 ? greatest(call.in(2)) : 0);
  };
}

Kernel prepare(const Busiest& op, const StepTypes& types) {
  int64_t cells = 1;  // blocks of this rank's tokens: digits that they are not cut over
  for (Atom a : types.mesh.atoms())
    if (!types.in[0]->find("T")->holds(a)) cells *= types.mesh.size(a);
  const kernels::CellShape shape{.chunks = op.routing.chunks, .experts = op.routing.experts, .cells = cells};
  return [shape, out = types.shape(*types.out[0])](Call& call) {
    call.make(0, out, at::kLong).fill_(kernels::busiest_cell({call.in(0), call.in(1)}, shape));
  };
}

Kernel prepare(const Nodes& op, const StepTypes& types) {
  return [each = op.experts / op.nodes, nodes = types.shape(*types.out[0]),
          kept = types.shape(*types.out[2])](Call& call) {
    const at::Tensor node = call.make(0, nodes, at::kLong), slot = call.make(1, nodes, at::kLong);
    kernels::routes_by_node({call.in(0), call.in(1)}, each, {node, slot, call.make(2, kept, at::kLong)});
  };
}

// Operands kept, table.
Kernel prepare(const CountWithin&, const StepTypes& types) {
  expects(types.in.size() == 2, "rows are counted within nodes by their table: lower the schedule");
  const int64_t nodes = local_size(types.mesh, *types.in[0]->find("E"));
  const int64_t first = types.range(*types.out[0], "E").first;
  return [nodes, first, shape = types.shape(*types.out[0])](Call& call) {
    const at::Tensor& kept = call.in(0);
    kernels::count_within({kept, call.in(1).view({nodes, -1}), first}, call.make(0, shape, at::kLong),
                          call.make(1, kept.sizes(), at::kLong));
  };
}

Kernel prepare(const Arrange& op, const StepTypes& types) {
  const std::vector<int64_t> places = types.shape(*types.out[0]);
  const kernels::PaddedShape shape{
      .groups = places[0] / op.routing.group, .experts = op.routing.experts, .capacity = op.routing.capacity};
  return [shape, places](Call& call) {
    kernels::place_rows({call.in(0), call.in(1)}, shape, call.make(0, places, at::kLong));
  };
}

// Operands x, [weight], places [, table].
Kernel prepare(const Encode& op, const StepTypes& types) {
  const bool ragged = op.routing.capacity == 0;
  const size_t places = types.in.size() - (ragged ? 2 : 1);
  expects(types.in[places]->role == Role::places, "encode of ragged rows needs its table: lower the schedule");
  const std::vector<int64_t> padded = types.shape(*types.out[0]);
  return [ragged, places, padded, rows = row_dims(*types.out[0])](Call& call) {
    const at::Tensor& x = call.in(0);
    const std::vector<int64_t> shape = ragged ? chain({total(call.in(places + 1))}, x.sizes().slice(1)) : padded;
    const at::Tensor out = flat(call.make(0, shape, x.scalar_type()), rows);
    places == 1 ? kernels::encode(flat(x, 1), call.in(1), out)
                : kernels::encode_weighted(flat(x, 1), call.in(1), call.in(2), out);
  };
}

// Operands rows, [weight], places.
Kernel prepare(const Decode&, const StepTypes& types) {
  return [weighted = types.in.size() == 3, rows = row_dims(*types.in[0])](Call& call) {
    const at::Tensor x = flat(call.in(0), rows), &places = call.in(weighted ? 2 : 1);
    const at::Tensor y =
        flat(call.make(0, chain({places.size(0)}, call.in(0).sizes().slice(rows)), x.scalar_type()), 1);
    weighted ? kernels::decode_weighted(x, call.in(1), places, y) : kernels::decode(x, places, y);
  };
}

// Operands x, rows, places.
Kernel prepare(const Pair&, const StepTypes& types) {
  return [rows = row_dims(*types.in[1]), weight = types.scalar(*types.out[0])](Call& call) {
    const at::Tensor& places = call.in(2);
    kernels::pair(flat(call.in(0), 1), flat(call.in(1), rows), places, call.make(0, places.sizes(), weight));
  };
}

}  // namespace plait
