/// Images of a batch on ranks: the planes of a grid's fields, where the kernel sweeps no planes together.
#pragma once

#include <spider/spider.h>

#include <cstdint>
#include <vector>

#include "layout.h"

namespace spider::distributed {

/// How many images a whole of these extents has.
[[nodiscard]] std::int64_t count_images(const spider_kernel& kernel, const std::int64_t whole[3]);

/// Whether a kernel sweeps so many: one at least, and of a system one; the reason if not.
[[nodiscard]] Outcome check_images(const spider_kernel& kernel, const std::int64_t whole[3]);

/// Whether all fields that a sweep of a grid names have so many images; those that take turns, which are
/// there, as far apart as each other.
[[nodiscard]] Outcome check_images_of(const spider_kernel& kernel, const spider_sweep& sweep,
                                      std::int64_t images);

/// A sweep of a grid as the runtime takes it: the first image of each field, and a batch. With one image it
/// is the sweep that was given. Missing fields stay missing.
class FirstImages {
 public:
  FirstImages(const spider_kernel& kernel, const spider_sweep& given, std::int64_t images);
  FirstImages(const FirstImages&) = delete;
  FirstImages& operator=(const FirstImages&) = delete;
  ~FirstImages() = default;

  [[nodiscard]] const spider_sweep& sweep() const { return sweep_; }
  /// The field that was given whose first image this is.
  [[nodiscard]] const spider_field* whole_of(const spider_field* first) const;

 private:
  [[nodiscard]] const spider_field* first_of(const spider_field* given);

  struct Known {
    const spider_field* given;
    spider_field first;
  };
  std::vector<Known> known_;  ///< has room for all, so that none moves
  std::vector<const spider_field*> further_;
  std::vector<std::int64_t> strides_;  ///< of further fields
  spider_sweep sweep_;
};

}  // namespace spider::distributed
