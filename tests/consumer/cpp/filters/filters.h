#pragma once

#include <spider/half.hpp>
#include <vector>

/// The image, row after row, smoothed `times` times.
std::vector<spider::half> smoothed(const std::vector<spider::half>& image, int rows, int columns, int times);
