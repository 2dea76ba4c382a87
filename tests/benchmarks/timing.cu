#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>

#include "timing.h"

namespace bench {
namespace {

constexpr int warm_rounds = 3;
constexpr long long delay_cycles =
    40'000;  // some 20 us: the host queues an event, a launch and an event meanwhile
constexpr double piece_microseconds = 20e3;
constexpr std::size_t pieces_queued = 3;

__global__ void wait_cycles(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

/// Something that is launched as a whole: one sweep, or a graph of many.
struct Unit {
  std::int64_t launches = 1;
  std::function<void(cudaStream_t)> start;
};

Unit single_unit(const Contestant& contestant) {
  return {1, [&contestant, next = 0](cudaStream_t stream) mutable {
            contestant.launch(next, stream);
            next = (next + 1) % contestant.fields->pairs();
          }};
}

/// Ends a capture that failed half-way, so that the stream can be used again.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a graph");
  }
  ~Capture() {
    if (stream_ == nullptr) return;
    cudaGraph_t abandoned = nullptr;
    cudaStreamEndCapture(stream_, &abandoned);
    static_cast<void>(cudaGetLastError());
    const Graph destroyed(abandoned);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] Graph end() {
    cudaGraph_t graph = nullptr;
    const cudaStream_t stream = std::exchange(stream_, nullptr);
    require(cudaStreamEndCapture(stream, &graph), "ending a graph");
    return Graph(graph);
  }

 private:
  cudaStream_t stream_;
};

Unit graph_unit(const Contestant& contestant, int batch) {
  const Stream stream = make_stream();
  Capture capture(stream.get());
  for (int i = 0; i < batch; ++i) contestant.launch(i % contestant.fields->pairs(), stream.get());
  const Graph graph = capture.end();
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph.get(), 0), "instantiating a graph");
  const std::shared_ptr<std::remove_pointer_t<cudaGraphExec_t>> owner(executable, GraphExecDestroy{});
  return {batch,
          [owner](cudaStream_t to) { require(cudaGraphLaunch(owner.get(), to), "launching a graph"); }};
}

/// A contestant that fails here is left out, and its timing says why.
std::optional<Unit> make_unit(const Contestant& contestant, Method method, int batch, Timing& timing) {
  try {
    return method == Method::graph ? graph_unit(contestant, batch) : single_unit(contestant);
  } catch (const std::runtime_error& error) {
    timing.failure = error.what();
    return std::nullopt;
  }
}

double time_once(Unit& unit, const Event& start, const Event& stop, cudaStream_t stream) {
  wait_cycles<<<1, 1, 0, stream>>>(delay_cycles);
  require(cudaGetLastError(), "the delay");
  require(cudaEventRecord(start.get(), stream), "recording an event");
  unit.start(stream);
  require(cudaEventRecord(stop.get(), stream), "recording an event");
  return microseconds_between(start, stop) / static_cast<double>(unit.launches);
}

Timing sustain(Unit& unit, double seconds, double estimate, const Nvml& nvml, cudaStream_t stream) {
  const auto units_per_piece = static_cast<std::int64_t>(std::max(
      1.0, std::ceil(piece_microseconds / (std::max(estimate, 0.1) * static_cast<double>(unit.launches)))));
  Timing timing;
  std::vector<double> pieces;
  std::deque<Event> marks;
  const Event first = make_event();
  LoadSampler sampler(nvml);
  const auto began = std::chrono::steady_clock::now();
  require(cudaEventRecord(first.get(), stream), "recording an event");
  const auto queue_piece = [&] {
    for (std::int64_t i = 0; i < units_per_piece; ++i) unit.start(stream);
    marks.push_back(make_event());
    require(cudaEventRecord(marks.back().get(), stream), "recording an event");
    timing.launches += units_per_piece * unit.launches;
  };
  const auto piece_launches = static_cast<double>(units_per_piece * unit.launches);
  std::size_t waited = 0;
  const auto wait_for_piece = [&] {
    const Event& before = waited == 0 ? first : marks[waited - 1];
    pieces.push_back(microseconds_between(before, marks[waited]) / piece_launches);
    ++waited;
  };
  while (std::chrono::steady_clock::now() - began < std::chrono::duration<double>(seconds)) {
    queue_piece();
    if (marks.size() - waited > pieces_queued) wait_for_piece();
  }
  while (waited < marks.size()) wait_for_piece();
  timing.load = sampler.finish();
  timing.summary = summarise(pieces);
  timing.summary.median = microseconds_between(first, marks.back()) / static_cast<double>(timing.launches);
  return timing;
}

}  // namespace

std::vector<Timing> time_bursts(const std::vector<Contestant>& contestants, Method method, int batch,
                                int rounds) {
  std::vector<Timing> timings(contestants.size());
  std::vector<std::optional<Unit>> units;
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    units.push_back(make_unit(contestants[i], method, batch, timings[i]));
  }
  const Stream stream = make_stream();
  const Event start = make_event();
  const Event stop = make_event();
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = 0; round < warm_rounds + rounds; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      if (!units[i]) continue;
      const double time = time_once(*units[i], start, stop, stream.get());
      if (round >= warm_rounds) times[i].push_back(time);
    }
  }
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    if (!units[i]) continue;
    timings[i].summary = summarise(times[i]);
    timings[i].launches = rounds * units[i]->launches;
  }
  return timings;
}

std::vector<Timing> time_sustained(const std::vector<Contestant>& contestants, Method method, int batch,
                                   double seconds, const std::vector<double>& estimates, const Nvml& nvml) {
  std::vector<Timing> timings(contestants.size());
  const Stream stream = make_stream();
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    if (std::optional<Unit> unit = make_unit(contestants[i], method, batch, timings[i])) {
      timings[i] = sustain(*unit, seconds, estimates[i], nvml, stream.get());
    }
  }
  return timings;
}

}  // namespace bench
