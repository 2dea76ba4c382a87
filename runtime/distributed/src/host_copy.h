/// Parts in host memory: a part's interior row after row without gaps, and a part of a whole array.
#pragma once

#include <spider/distributed.h>

#include <cstddef>
#include <vector>

#include "layout.h"

namespace spider::distributed {

/// The interior of a field on the host.
[[nodiscard]] Outcome download_part(const spider_field& field, std::int64_t element_bytes,
                                    std::vector<std::byte>& part);
/// And back.
[[nodiscard]] Outcome upload_part(const std::vector<std::byte>& part, std::int64_t element_bytes,
                                  const spider_field& field);

/// The cells of a part among those of the whole.
void take_part(const std::byte* whole, const spider_grid_layout& layout, std::int64_t element_bytes,
               std::vector<std::byte>& part);
/// And back.
void put_part(const std::vector<std::byte>& part, const spider_grid_layout& layout,
              std::int64_t element_bytes, std::byte* whole);

/// Of a part's interior.
[[nodiscard]] std::size_t part_bytes(const spider_grid_layout& layout, std::int64_t element_bytes);

}  // namespace spider::distributed
