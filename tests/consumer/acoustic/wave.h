/// Acoustic waves: u_tt = c^2 laplace(u) + s(t) delta(x - source), on a grid of spacing h with time steps dt.
#pragma once

#include <cstdint>
#include <spider/spider.hpp>
#include <vector>

/// What an experiment is made of. Cells are z, y, x; z goes down, and u is 0 one cell above the first plane.
struct Shot {
  spider::Extents extents;
  std::vector<float> c2dt2;    ///< (c dt / h)^2 of each cell
  std::vector<float> damping;  ///< of a step: 0 inside, more in the sponge
  spider::Extents source;
  std::vector<spider::Extents> receivers;
  std::vector<float> signal;  ///< what a step adds to the source's cell: dt^2 s(t) / h^3
};

/// What comes of it.
struct Record {
  std::vector<float> trace;  ///< of step 1, 2, ...: a number for each receiver
  std::vector<float> slice;  ///< the last step's plane through the source, z by x
  double seconds;            ///< of all steps
};

/// Starts from rest.
[[nodiscard]] Record run(const Shot& shot);

/// The second derivative of a Gaussian, upside down: 1 at time 0, frequencies around `peak`, nothing
/// beyond 2.5 of it.
[[nodiscard]] double ricker(double peak, double time);
