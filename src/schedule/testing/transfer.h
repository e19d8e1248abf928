// What a move gives each rank.
#pragma once
#include "schedule/op.h"
#include "schedule/testing/array.h"

namespace plait::oracle {

// Leg by leg: partial values are added, chunks joined or cut.
PerRank move_dense(const Mesh& mesh, const Type& from, const Legs& legs, PerRank local);

// sent[r][q]: the elements of rank r's part that reach rank q.
std::vector<std::vector<double>> elements_sent(const Mesh& mesh, const Type& from, const Legs& legs,
                                               const PerRank& local);

struct RowsMove {
  const Type &from, &to;
  const Legs& legs;
};
struct RowTables {
  const PerRank &from, &to;  // as the sender and as the receiver holds its counts
};

// Rows by the cells that the sender has and the receiver needs; `sent` becomes the rows from rank to rank.
PerRank move_rows(const Mesh& mesh, const RowsMove& move, const PerRank& local, const RowTables& tables,
                  std::vector<std::vector<double>>& sent);

}  // namespace plait::oracle
