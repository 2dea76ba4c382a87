#include "npy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "fields.h"

namespace spider::distributed {
namespace {

constexpr std::string_view magic{"\x93NUMPY", 6};

Outcome refuse(const std::string& reason) {
  return {SPIDER_ERROR_EXTENT, reason};
}

/// What follows 'key': in the dictionary; empty where the key is missing.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  std::string quoted(1, '\'');
  quoted += key;
  quoted += '\'';
  const std::size_t at = dictionary.find(quoted);
  if (at == std::string_view::npos) return {};
  const std::size_t colon = dictionary.find(':', at);
  if (colon == std::string_view::npos) return {};
  std::string_view value = dictionary.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

std::string in_words(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t count : shape) text += (text.empty() ? "" : " x ") + std::to_string(count);
  return text.empty() ? "no axes" : text;
}

}  // namespace

std::string make_npy_header(const std::string& type, const std::vector<std::int64_t>& shape) {
  constexpr std::size_t preamble_bytes = 10;
  constexpr std::size_t alignment = 64;
  std::string tuple;
  for (const std::int64_t count : shape) tuple += std::to_string(count) + ", ";
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + tuple + "), }";
  header.append(alignment - 1 - (preamble_bytes + header.size()) % alignment, ' ');
  header += '\n';
  const auto length = static_cast<unsigned>(header.size());
  std::string preamble(magic);
  preamble += '\x01';
  preamble += '\0';
  preamble += static_cast<char>(length & 0xFFU);
  preamble += static_cast<char>(length >> 8U);
  return preamble + header;
}

std::int64_t npy_data_offset(std::string_view begin) {
  if (begin.size() < 12 || begin.substr(0, magic.size()) != magic) return 0;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::int64_t>(static_cast<unsigned char>(begin[i]));
  };
  if (byte(6) == 1) return 10 + byte(8) + (byte(9) << 8);
  if (byte(6) > 3) return 0;
  return 12 + byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24);
}

Outcome read_npy_header(std::string_view preamble, NpyHeader& header) {
  const std::size_t brace = preamble.find('{');
  if (brace == std::string_view::npos) return refuse("the header of the .npy file has no dictionary");
  const std::string_view dictionary = preamble.substr(brace);
  const std::string_view type = value_of(dictionary, "descr");
  const std::string_view order = value_of(dictionary, "fortran_order");
  std::string_view shape = value_of(dictionary, "shape");
  if (type.empty() || order.empty() || shape.empty() || shape.front() != '(')
    return refuse("the header of the .npy file lacks descr, fortran_order or shape");
  if (type.front() != '\'') return refuse("the .npy file holds records, not numbers");
  header.type = std::string(type.substr(1, type.find('\'', 1) - 1));
  header.fortran_order = order.substr(0, 4) == "True";
  for (shape.remove_prefix(1); !shape.empty() && shape.front() != ')';) {
    if (std::isdigit(static_cast<unsigned char>(shape.front())) == 0) {
      shape.remove_prefix(1);
      continue;
    }
    std::int64_t count = 0;
    const auto [stop, error] = std::from_chars(shape.data(), shape.data() + shape.size(), count);
    if (error != std::errc{}) return refuse("the shape of the .npy file is out of range");
    header.shape.push_back(count);
    shape.remove_prefix(static_cast<std::size_t>(stop - shape.data()));
  }
  if (shape.empty()) return refuse("the header of the .npy file ends within its shape");
  return {};
}

std::vector<std::int64_t> shape_of(const CutField& field, const std::int64_t whole[3]) {
  std::vector<std::int64_t> shape;
  for (int axis = 0; axis < 3; ++axis) {
    if (field.axes[axis]) shape.push_back(whole[axis]);
  }
  return shape;
}

std::string npy_type(std::int32_t storage) {
  if (storage == SPIDER_BF16) return "<V2";
  std::string type("<f");
  type += std::to_string(bytes_of(storage));
  return type;
}

Outcome check_npy_header(const NpyHeader& header, const CutField& field, const std::int64_t whole[3]) {
  const std::string wanted = npy_type(field.storage);
  const bool bits = field.storage == SPIDER_BF16 && (header.type == "<u2" || header.type == "|V2");
  if (header.type != wanted && !bits) {
    return {SPIDER_ERROR_UNSUPPORTED,
            "the .npy file holds " + header.type + ", and " + field.name + " stores " + wanted};
  }
  if (header.fortran_order)
    return refuse("the .npy file is in Fortran's order; write it with numpy.ascontiguousarray");
  const std::vector<std::int64_t> all = shape_of(field, whole);
  std::vector<std::int64_t> shape = header.shape;
  while (shape.size() > all.size() && shape.front() == 1) shape.erase(shape.begin());
  std::vector<std::int64_t> without = all;
  while (without.size() > shape.size() && without.front() == 1) without.erase(without.begin());
  if (shape == without) return {};
  return refuse("the .npy file has shape " + in_words(header.shape) + ", and the whole is " + in_words(all));
}

}  // namespace spider::distributed
