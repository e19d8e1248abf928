// The world of ranks as two grids at once: tp x dp for everything that is not an expert, esp x ep x edp for experts.
// Both are runs of the same mixed-radix digits ("atoms"); pure arithmetic, no communication.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace plait {

using Atom = int;  // index of a digit; atom 0 is the fastest

enum class Axis { tp, dp, esp, ep, edp };

struct MeshSize {
  int ranks = 1, tp = 1, esp = 1, ep = 1;  // dp = ranks / tp, edp = ranks / (esp * ep)
  int node = 0;                            // ranks of a node; 0: messages between nodes are like any other
  bool operator==(const MeshSize&) const = default;
};

// rank = (edp * ep + e) * esp + s = dp * tp + t. Atoms are the common refinement of {1, tp, esp, esp*ep, node, ranks}:
// sorted, each must divide the next, else InputError naming the two that do not.
class Mesh {
 public:
  Mesh() = default;  // one rank
  explicit Mesh(MeshSize size);

  const MeshSize& sizes() const { return sizes_; }
  int ranks() const { return sizes_.ranks; }
  int num_atoms() const { return static_cast<int>(atom_size_.size()); }
  int size(Atom atom) const { return atom_size_[atom]; }
  int stride(Atom atom) const { return atom_stride_[atom]; }
  bool crosses_nodes(Atom atom) const { return sizes_.node > 0 && stride(atom) >= sizes_.node; }
  int digit(int rank, Atom atom) const { return rank / stride(atom) % size(atom); }

  std::vector<Atom> atoms() const;               // all, slow to fast: the order in which tokens are split
  std::vector<Atom> axis(Axis axis) const;       // the atoms of an axis, slow to fast
  int extent(Axis axis) const;                   // number of ranks along the axis
  int count(std::span<const Atom> atoms) const;  // number of ranks in a group over these atoms

  // The ranks that differ from `rank` in these atoms only, ordered by their digits, the first atom major.
  std::vector<int> group(int rank, std::span<const Atom> atoms) const;
  // The coordinate of a rank along an axis.
  int coordinate(int rank, Axis axis) const;

  // "tp.esp", "dp.ep", ...: the axis of each grid it belongs to; "dp.ep.node" where a node cuts these axes, its part
  // within the node.
  std::string name(Atom atom) const;
  std::string coordinates(int rank) const;  // "rank 5 (tp 1, dp 2; esp 1, ep 0, edp 1)"

  bool operator==(const Mesh&) const = default;

 private:
  MeshSize sizes_;
  std::vector<int> atom_size_, atom_stride_;
};

std::string_view name(Axis axis);
inline constexpr Axis kAxes[] = {Axis::tp, Axis::dp, Axis::esp, Axis::ep, Axis::edp};

}  // namespace plait
