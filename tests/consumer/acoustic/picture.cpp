#include "picture.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace {

void append_big_endian(std::string& bytes, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
}

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

std::uint32_t adler32(std::string_view bytes) {
  constexpr std::uint32_t modulus = 65521;
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const char byte : bytes) {
    low = (low + static_cast<std::uint8_t>(byte)) % modulus;
    high = (high + low) % modulus;
  }
  return high << 16 | low;
}

std::string chunk(const std::string& kind, const std::string& data) {
  std::string bytes;
  append_big_endian(bytes, static_cast<std::uint32_t>(data.size()));
  const std::string content = kind + data;
  bytes += content;
  append_big_endian(bytes, crc32(content));
  return bytes;
}

/// A zlib stream of stored blocks.
std::string stored(std::string_view data) {
  constexpr std::size_t most = 65535;
  std::string bytes = "\x78\x01";
  for (std::size_t first = 0; first < data.size(); first += most) {
    const std::string_view block = data.substr(first, most);
    bytes.push_back(first + most < data.size() ? 0 : 1);
    for (const std::size_t number : {block.size(), ~block.size()}) {
      bytes.push_back(static_cast<char>(number & 0xff));
      bytes.push_back(static_cast<char>(number >> 8 & 0xff));
    }
    bytes += block;
  }
  append_big_endian(bytes, adler32(data));
  return bytes;
}

}  // namespace

void write_png(const std::string& path, const Picture& picture) {
  std::string lines;
  for (std::uint32_t row = 0; row < picture.rows; ++row) {
    lines.push_back(0);  // no filter
    for (std::uint32_t column = 0; column < picture.columns; ++column) {
      for (const std::uint8_t part : picture.pixels.at(std::size_t{row} * picture.columns + column))
        lines.push_back(static_cast<char>(part));
    }
  }
  std::string header;
  append_big_endian(header, picture.columns);
  append_big_endian(header, picture.rows);
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, red green blue
  std::ofstream file(path, std::ios::binary);
  file << "\x89PNG\r\n\x1a\n" << chunk("IHDR", header) << chunk("IDAT", stored(lines)) << chunk("IEND", "");
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}
