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

constexpr std::string_view system_starter = R"yaml(# A system of equations for spider-gen.
#   spider-gen @name@.yaml --explain      shows the plan of its kernel
#   spider-gen @name@.yaml -o kernels     writes kernels/@name@.cu and kernels/@name@.h
# All keys and rules: stencils/README.md of spider-gen.

stencil: @name@   # the file's name without .yaml
description: acoustic waves, pressure and velocities on a staggered grid
dimensions: 2
storage: f32   # of fields that say nothing: f16, bf16, f32 or f64

# Names for the expressions below, from top to bottom. -D h=5 on the command line overrides one.
parameters:
  h: 10   # spacing
scalars: [dt]   # numbers that each launch gives

# All fields, in the order in which arrays are given. Names alone also go: [p, u, v, k].
fields:
  p: {}   # pressure, at the points
  u: {}   # velocity along x, half a spacing to the right of them
  v: {}   # velocity along y, half a spacing up
  k: {}   # bulk modulus over density; no stage writes it
  # w: {storage: f16, boundary: nearest, axes: [x]}   # keys of its own: here the same for all y

# Stencils by name, of any shape: see the shapes of stencils/README.md. at: where a derivative is taken, in spacings.
operators:
  dxp: {shape: derivative, order: {x: 1}, accuracy: 4, spacing: h, at: {x: 1/2}}
  dxm: {shape: derivative, order: {x: 1}, accuracy: 4, spacing: h, at: {x: -1/2}}
  dyp: {shape: derivative, order: {y: 1}, accuracy: 4, spacing: h, at: {y: 1/2}}
  dym: {shape: derivative, order: {y: 1}, accuracy: 4, spacing: h, at: {y: -1/2}}

# One after the other: each sees what those before it wrote. Within a stage all reads see the values before it.
# Expressions have operators of fields or of expressions, dxp(k*p), and neighbours, p[0, 1] at y and x + 1.
stages:
  - u: u - dt*dxp(p)
    v: v - dt*dyp(p)
  - let: {div: dxm(u) + dym(v)}   # a value by name
    p: p - dt*k*div

# Numbers that are made of all points of a sweep: new(p) is p after it, p before it.
# reduce: {change: {max: "abs(new(p) - p)"}}

# The ghost cells of fields without a rule of their own.
boundary: {constant: 0}
)yaml";

std::string named(std::string_view starter_text, const std::string& name) {
  std::string text(starter_text);
  for (std::size_t at = text.find(name_mark); at != std::string::npos; at = text.find(name_mark, at)) {
    text.replace(at, name_mark.size(), name);
  }
  return text;
}

}  // namespace

std::string starter_spec(const std::string& name) {
  return named(starter, name);
}

std::string starter_system(const std::string& name) {
  return named(system_starter, name);
}

}  // namespace spidergen::cli
