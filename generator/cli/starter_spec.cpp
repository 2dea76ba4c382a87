#include "cli/starter_spec.h"

#include <cstddef>
#include <string_view>

namespace spidergen::cli {
namespace {

constexpr std::string_view name_mark = "@name@";

constexpr std::string_view starter = R"(# A stencil for spider-gen.
#   spider-gen @name@.yaml --explain      shows the plan of its kernel
#   spider-gen @name@.yaml -o kernels     writes kernels/@name@.cu and kernels/@name@.h
# All keys and rules: stencils/README.md of spider-gen.

stencil: @name@   # the file's name without .yaml
description: one step of the heat equation, 5 points
dimensions: 2
storage: f16   # how values lie in memory: f16, bf16, f32 or f64

# Names for the expressions below, from top to bottom. -D alpha=0.1 on the command line overrides one.
parameters:
  alpha: 0.2   # diffusion coefficient * time step / spacing^2; the step is stable up to 1/4

# out[p] = sum of weight * in[p + offset]. A star has a centre and its neighbours along the axes, lowest offset first.
# Other shapes:
#   box      coefficients: [[1, 2, 1], [2, 4, 2], [1, 2, 1]]           rows of y
#   product  coefficients: {y: [1, 2, 1], x: [1, 2, 1]}                each weight of y times each of x
#   taps     coefficients: [{at: [0, -1], weight: -1}, {at: [0, 0], weight: 1}]   offsets [y, x]
# Shapes that make the weights:
#   laplacian   accuracy: 4, spacing: 0.1; with scale and center this step is center: 1, scale: alpha, spacing: 1
#   derivative  order: {x: 1}, accuracy: 4, spacing: 0.1
#   gaussian    sigma: 1.5
#   formula     radius: 2, weight: exp(-(y^2 + x^2))
shape: star
coefficients:
  center: 1 - 4*alpha
  y: [alpha, alpha]   # y - 1, y + 1
  x: [alpha, alpha]
# sums: {gx: {shape: ...}, gy: {shape: ...}}   # in the place of a shape: several, for update: sqrt(gx^2 + gy^2)
# scale: 1/16   # a factor of all weights
# center: 1     # what is added to the middle weight

# What lies beyond the field: halo (cells that the caller fills), {constant: 0}, nearest and others, for all faces or
# for some: {y: halo, x: {low: {constant: 1}, high: nearest}}.
boundary: nearest
# steps: auto   # time steps that one sweep advances; each step has the boundary's rules
)";

}  // namespace

std::string starter_spec(const std::string& name) {
  std::string text(starter);
  for (std::size_t at = text.find(name_mark); at != std::string::npos; at = text.find(name_mark, at)) {
    text.replace(at, name_mark.size(), name);
  }
  return text;
}

}  // namespace spidergen::cli
