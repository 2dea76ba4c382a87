/// The header of .npy files, version 1 to 3, of arrays in C order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout.h"

namespace spider::distributed {

struct NpyHeader {
  std::string type;  ///< as NumPy writes it, e.g. <f4
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// The bytes of magic, version, length and header for an array of this type and shape; a multiple of 64.
[[nodiscard]] std::string make_npy_header(const std::string& type, const std::vector<std::int64_t>& shape);

/// The length of the preamble of a file that begins with these bytes, at least 12 of them; 0 where they begin
/// no .npy file.
[[nodiscard]] std::int64_t npy_data_offset(std::string_view begin);

/// Reads the header of a file that begins with `preamble`; the reason if it cannot.
[[nodiscard]] Outcome read_npy_header(std::string_view preamble, NpyHeader& header);

/// The extents of the axes that a field has, of those of the whole.
[[nodiscard]] std::vector<std::int64_t> shape_of(const CutField& field, const std::int64_t whole[3]);

/// Whether the array is such a field of the whole; the reason if it is not.
[[nodiscard]] Outcome check_npy_header(const NpyHeader& header, const CutField& field,
                                       const std::int64_t whole[3]);

/// What a storage, SPIDER_F16 and so on, is called.
[[nodiscard]] std::string npy_type(std::int32_t storage);

}  // namespace spider::distributed
