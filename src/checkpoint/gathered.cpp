#include "checkpoint/gathered.h"

#include <ATen/ops/zeros.h>

#include "schedule/boxes.h"

namespace plait {

at::Tensor gathered(const Mesh& mesh, const Type& type, const std::vector<at::Tensor>& parts) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.dims) shape.push_back(dim.size);
  const at::Tensor whole = at::zeros(shape, parts[0].options());
  for (int r = 0; r < mesh.ranks(); ++r) {
    bool copy = false;  // a rank whose I and R digits are not 0 holds what another one brings
    for (Atom a = 0; a < mesh.num_atoms(); ++a)
      copy = copy || ((type.holds[a] == Hold::I || type.holds[a] == Hold::R) && mesh.digit(r, a) != 0);
    if (copy) continue;
    at::Tensor place = whole;
    const Box box = box_of(mesh, type.dims, r);
    for (size_t d = 0; d < box.size(); ++d) place = place.narrow(static_cast<int64_t>(d), box[d].first, box[d].size);
    place.add_(parts[r].view(place.sizes()));
  }
  return whole;
}

}  // namespace plait
