#include "run/recording.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace plait {

Recording::Recording(Schedule schedule) : schedule_(std::move(schedule)), ranks_(schedule_.mesh.ranks()) {
  for (int rank = 0; rank < schedule_.mesh.ranks(); ++rank) begin(rank);
}

Observer Recording::observer(int rank) {
  return [this, rank](const Span& span) {
    Rank& r = ranks_[rank];
    r.spans.push_back(span);
    r.places.push_back(place(span.step, r.times[span.step]++));
  };
}

void Recording::begin(int rank) {
  ranks_[rank].spans.clear();
  ranks_[rank].places.clear();
  ranks_[rank].times.assign(schedule_.steps.size(), 0);
}

void Recording::share(int rank, wire::World& world) {
  if (world.ranks_here() < world.size()) exchange(rank, *wire::everyone(world, rank));
}

void Recording::exchange(int rank, wire::Group& everyone) {
  using Clock = std::chrono::steady_clock;
  everyone.barrier();
  const auto zero = Clock::now();
  const auto seconds = [&](Clock::time_point t) { return std::chrono::duration<double>(t - zero).count(); };
  const auto time = [&](double s) {
    return zero + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  const Rank& own = ranks_[rank];
  const auto n = static_cast<int64_t>(own.spans.size());
  constexpr int64_t kColumns = 5;  // step, place, lane, begin, end
  const at::Tensor mine = at::empty({n, kColumns}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) {
    const Span& s = own.spans[i];
    const double row[kColumns] = {static_cast<double>(s.step), static_cast<double>(own.places[i]),
                                  static_cast<double>(s.lane), seconds(s.begin), seconds(s.end)};
    std::ranges::copy(row, mine.data_ptr<double>() + i * kColumns);
  }
  const at::Tensor all = at::empty({everyone.size() * n, kColumns}, at::kDouble);
  everyone.all_gather(mine, all);  // every rank performs the same list
  for (int r = 0; r < everyone.size(); ++r) {
    if (r == rank) continue;
    begin(r);
    for (int64_t i = 0; i < n; ++i) {
      const double* row = all.data_ptr<double>() + (r * n + i) * kColumns;
      ranks_[r].spans.push_back({static_cast<int>(row[0]), static_cast<Lane>(row[2]), time(row[3]), time(row[4])});
      ranks_[r].places.push_back(static_cast<int>(row[1]));
    }
  }
}

int Recording::place(int step, int time) const {
  if (!schedule_.repeat || step < schedule_.repeat->first) return step;
  const Repeat& r = *schedule_.repeat;
  return step + (r.last - r.first) * (step < r.last ? time : r.times - 1);
}

Timeline Recording::timeline() const {
  auto origin = std::chrono::steady_clock::time_point::max();
  for (const Rank& rank : ranks_)
    for (const Span& span : rank.spans) origin = std::min(origin, span.begin);
  const auto seconds = [&](std::chrono::steady_clock::time_point t) {
    return std::chrono::duration<double>(t - origin).count();
  };
  Timeline timeline;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    for (size_t i = 0; i < ranks_[r].spans.size(); ++i) {
      const Span& span = ranks_[r].spans[i];
      timeline.spans.push_back({.rank = r,
                                .lane = static_cast<int>(span.lane),
                                .step = span.step,
                                .place = ranks_[r].places[i],
                                .start = seconds(span.begin),
                                .end = seconds(span.end)});
      timeline.makespan = std::max(timeline.makespan, timeline.spans.back().end);
    }
  std::ranges::sort(timeline.spans, {}, [](const TimeSpan& s) { return std::pair(s.place, s.rank); });
  find_meetings(schedule_, timeline);
  return timeline;
}

}  // namespace plait
