/// Pictures as PNG files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

struct Picture {
  std::uint32_t rows;
  std::uint32_t columns;
  std::vector<Colour> pixels;  ///< row after row, from the top
};

/// Not compressed. Throws std::runtime_error where the file cannot be written.
void write_png(const std::string& path, const Picture& picture);
