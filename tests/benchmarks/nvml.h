/// Clock, power and driver version, as NVIDIA's management library tells them. It is opened at run time:
/// where there is none, or it does not tell, values are absent.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace bench {

/// Means over a while.
struct Load {
  std::optional<double> sm_mhz;
  std::optional<double> power_w;
};

/// One device of the library.
class Nvml {
 public:
  /// `pci_bus_id` as cudaDeviceGetPCIBusId gives it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Empty where it is not known.
  [[nodiscard]] std::string driver_version() const;
  /// Of the multiprocessors, now, in MHz.
  [[nodiscard]] std::optional<double> sm_clock() const;
  /// In W; on many devices the mean of the last second.
  [[nodiscard]] std::optional<double> power() const;
  /// Joules drawn since the driver was loaded.
  [[nodiscard]] std::optional<double> energy() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;  ///< null where there is no library or no such device
};

/// Samples the clock every 10 ms on a thread of its own, from construction to finish().
class LoadSampler {
 public:
  explicit LoadSampler(const Nvml& nvml);
  ~LoadSampler();
  LoadSampler(const LoadSampler&) = delete;
  LoadSampler& operator=(const LoadSampler&) = delete;

  /// Power from the energy drawn meanwhile where the device counts it, else from samples.
  [[nodiscard]] Load finish();

 private:
  void sample();

  const Nvml& nvml_;
  std::optional<double> energy_before_;
  double started_;  ///< seconds
  std::atomic<bool> done_ = false;
  std::vector<double> clocks_;
  std::vector<double> powers_;
  std::thread thread_;
};

}  // namespace bench
