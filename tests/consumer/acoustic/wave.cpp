#include "wave.h"

#include <acoustic.h>

#include <chrono>
#include <cmath>
#include <numbers>

namespace {

spider::Field<float> uploaded(const spider::Extents& extents, const std::vector<float>& values) {
  spider::Field<float> field(extents);
  field.upload(values);
  return field;
}

}  // namespace

double ricker(double peak, double time) {
  const double a = std::pow(std::numbers::pi * peak * time, 2);
  return (1 - 2 * a) * std::exp(-a);
}

Record run(const Shot& shot) {
  using Clock = std::chrono::steady_clock;
  const spider_kernel* const kernel = acoustic_kernel();
  const auto steps = static_cast<std::int64_t>(shot.signal.size());
  const spider::Field<float> c2dt2 = uploaded(shot.extents, shot.c2dt2);
  const spider::Field<float> damping = uploaded(shot.extents, shot.damping);
  spider::Field<float> u(shot.extents);
  spider::Field<float> u_old(shot.extents);
  spider::Update wave(kernel);
  wave.field("c2dt2", c2dt2).field("damping", damping);

  const spider::Points source(kernel, shot.extents, {shot.source});
  const spider::Points line(kernel, shot.extents, shot.receivers);
  const spider::Field<float> signal = uploaded({1, steps, 1}, shot.signal);
  spider::Field<float> trace(steps, line.size());

  // All of it is queued; nothing waits before the end.
  spider::prepare(kernel);
  spider::synchronize();
  const Clock::time_point begin = Clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    wave.run_steps(u, u_old, u_old, 1);
    source.add(u, signal, step);
    line.read(u, trace, step);
  }
  spider::synchronize();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  std::vector<spider::Extents> plane;
  for (std::int64_t z = 0; z < shot.extents[0]; ++z) {
    for (std::int64_t x = 0; x < shot.extents[2]; ++x) plane.push_back({z, shot.source[1], x});
  }
  const spider::Points cells(kernel, shot.extents, plane);
  spider::Field<float> slice(1, cells.size());
  cells.read(u, slice);
  spider::synchronize();
  return {trace.download(), slice.download(), seconds};
}
