#include "kernels/cpu/embed.h"

#include <cstring>

#include "kernels/cpu/kernel.h"

namespace plait::kernels {

void embed(const at::Tensor& table_vD, const at::Tensor& ids_T, int64_t first, const at::Tensor& y_TD) {
  int64_t held = table_vD.size(0), width = table_vD.size(1), tokens = ids_T.numel();
  expects(y_TD.numel() == tokens * width && y_TD.size(-1) == width, "embed: table, ids and y do not fit");
  by_element(table_vD, [&]<class T>(T) {
    const T* table = in<T>(table_vD);
    const int64_t* ids = in<int64_t>(ids_T);
    T* y = out<T>(y_TD);
    over_rows(tokens, width, [=](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t id = ids[t] - first;
        if (id >= 0 && id < held)
          std::memcpy(y + t * width, table + id * width, width * sizeof(T));
        else
          std::memset(y + t * width, 0, width * sizeof(T));
      }
    });
  });
}

// Each thread owns columns and walks all tokens, so a row's sum has one order whatever the threads.
void embed_grad(const at::Tensor& dy_TD, const at::Tensor& ids_T, int64_t first, const at::Tensor& dtable_vD) {
  int64_t held = dtable_vD.size(0), width = dtable_vD.size(1), tokens = ids_T.numel();
  expects(dy_TD.numel() == tokens * width && dy_TD.size(-1) == width, "embed_grad: dy, ids and dtable do not fit");
  by_element(dy_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* dy = in<E>(dy_TD);
    const int64_t* ids = in<int64_t>(ids_T);
    std::vector<T> sums = space<E>(held * width);
    T* dtable = room(out<E>(dtable_vD), sums.data());
    at::parallel_for(0, width, 64, [=](int64_t begin, int64_t end) {
      int64_t mine = end - begin;
      std::vector<T> row = space<E>(mine);
      for (int64_t v = 0; v < held; ++v) std::memset(dtable + v * width + begin, 0, mine * sizeof(T));
      for (int64_t t = 0; t < tokens; ++t) {
        int64_t id = ids[t] - first;
        if (id < 0 || id >= held) continue;
        const T* __restrict from = wide(dy + t * width + begin, mine, row.data());
        T* __restrict to = dtable + id * width + begin;
        for (int64_t d = 0; d < mine; ++d) to[d] += from[d];
      }
    });
    settle(dtable, out<E>(dtable_vD), held * width);
  });
}

}  // namespace plait::kernels
