/// Generated files of systems: facts of fields and sweeps, and the expressions of points.
#include "emit/system_text.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "plan/system_plan.h"
#include "spec/read_spec.h"

namespace spidergen::emit {
namespace {

struct Files {
  std::string source, header;
};

Files files_of(const std::string& keys) {
  const spec::ReadResult result = spec::read_spec({"t.yaml", "stencil: t\nstorage: f32\n" + keys}, {});
  for (const diag::Diagnostic& one : result.diagnostics.items) ADD_FAILURE() << to_string(one);
  const spec::SystemSpec spec = result.system.value_or(spec::SystemSpec());
  const std::vector<EmittedFile> files = emit_system(spec, plan::plan_system(spec), "test");
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(files.at(0).name, "t.cu");
  EXPECT_EQ(files.at(1).name, "t.h");
  return {files.at(0).text, files.at(1).text};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Two stages, which are fused; a field of 16 bits, one with fewer axes, a scalar, a parameter.
const std::string small =
    "dimensions: 2\nparameters: {c: 1/4}\nscalars: [dt]\n"
    "fields: {u: {}, k: {storage: f16, boundary: nearest}, d: {axes: [x]}}\nboundary: {constant: 0.5}\n"
    "stages:\n  - u: u + dt*k*d*(u[0, 1] - u[0, -1])\n  - u: u + c*k[1, 0]\n";

TEST(SystemText, ComputesAPoint) {
  EXPECT_TRUE(has(files_of(small).source, R"(
    const auto t0 = p.template read<0, 0>();  // u
    const auto t1 = p.scalar(0);  // dt
    const auto t2 = p.template read<1, 0>();  // k
    const auto t3 = spider::device::multiply(t1, t2);
    const auto t4 = p.template read<3, 0>();  // d
    const auto t5 = spider::device::multiply(t3, t4);
    const auto t6 = p.template read<0, 1>();  // u[0, 1]
    const auto t7 = p.template read<0, -1>();  // u[0, -1]
    const auto t8 = spider::device::subtract(t6, t7);
    const auto t9 = spider::device::multiply_add(t5, t8, t0);
    const auto t10 = p.template read<2, 0>();  // k[1, 0]
    const auto t11 = spider::device::multiply_add(p.number(0.25F), t10, t9);
    results[0] = t11;  // u
)"));
}

TEST(SystemText, HasTheRowsOfASweepAndWhatItWrites) {
  const std::string source = files_of(small).source;
  EXPECT_TRUE(has(source, R"(
  static constexpr spider::ReadRow rows[row_count] = {
      {0, 0, 0, -1, 1},  // u
      {1, 0, 0, 0, 0},  // k
      {1, 0, 1, 0, 0},  // k
      {2, 0, 0, 0, 0},  // d
  };
  static constexpr spider::WrittenField written[written_count] = {{0, true}};
)"));
  EXPECT_TRUE(has(source, "using Number = float;"));
  EXPECT_TRUE(has(source, "row_count = 4, written_count = 1, reduced_count = 0;"));
  EXPECT_TRUE(has(source, "spider::system_sweep<Sweep0>(2),"));
  EXPECT_TRUE(has(source, "spider::system_form<Sweep0>(),"));
  EXPECT_FALSE(has(source, "Sweep1"));
}

TEST(SystemText, HasTheFacesOfEachField) {
  EXPECT_TRUE(has(files_of(small).source, R"(
      {SPIDER_F16, {false, true, true},  // k
       {{{spider::FaceRule::halo, 0x0p+0}, {spider::FaceRule::halo, 0x0p+0}},
        {{spider::FaceRule::nearest, 0x0p+0}, {spider::FaceRule::nearest, 0x0p+0}},
        {{spider::FaceRule::nearest, 0x0p+0}, {spider::FaceRule::nearest, 0x0p+0}}}},
      {SPIDER_F32, {false, false, true},  // d
       {{{spider::FaceRule::halo, 0x0p+0}, {spider::FaceRule::halo, 0x0p+0}},
        {{spider::FaceRule::halo, 0x0p+0}, {spider::FaceRule::halo, 0x0p+0}},
        {{spider::FaceRule::constant, 0x1p-1}, {spider::FaceRule::constant, 0x1p-1}}}},
)"));
}

TEST(SystemText, RoundsConstantsOfFacesAsTheFieldDoes) {
  const std::string source =
      files_of(
          "dimensions: 1\nfields: {u: {boundary: {constant: 0.1}}, h: {storage: f16, boundary: {constant: "
          "0.1}}}\nstages: [{u: \"u[1] + h[1]\"}]\n")
          .source;
  EXPECT_EQ(count(source, "constant, 0x1.99999ap-4}"), 2U);
  EXPECT_EQ(count(source, "constant, 0x1.998p-4}"), 2U);
}

TEST(SystemText, TellsTheRuntimeItsFields) {
  const std::string source = files_of(small).source;
  EXPECT_TRUE(has(source, R"(
constexpr const char* field_names[] = {"u", "k", "d"};
constexpr std::int32_t field_storages[] = {SPIDER_F32, SPIDER_F16, SPIDER_F32};
constexpr std::int32_t field_uses[] = {15, 1, 1};
constexpr std::int32_t field_axes[] = {6, 6, 4};
constexpr const char* scalar_names[] = {"dt"};
)"));
  EXPECT_TRUE(has(source, "{field_names, field_storages, field_uses, field_axes, 3, scalar_names, 1}"));
  const std::string unscaled = files_of("dimensions: 1\nfields: [u]\nstages: [{u: 2*u}]\n").source;
  EXPECT_TRUE(has(unscaled, "field_axes, 1, nullptr, 0}"));
}

TEST(SystemText, HasASweepForEachStageThatIsNotFused) {
  const std::string source = files_of(
                                 "dimensions: 1\nboundary: nearest\nfields: [u, w, k]\nstages: [{u: \"u + "
                                 "w[1]*k[1]\"}, {w: \"w + u[1]*k[1]\"}]\n")
                                 .source;
  EXPECT_TRUE(has(source, "/// Stage 1: u.\nstruct Sweep0 : Fields {"));
  EXPECT_TRUE(has(source, "/// Stage 2: w.\nstruct Sweep1 : Fields {"));
  EXPECT_TRUE(has(source, "spider::system_sweep<Sweep0>(1),\n    spider::system_sweep<Sweep1>(1),"));
  EXPECT_EQ(count(source, "written[written_count] = {{0, false}};"), 1U);
  EXPECT_EQ(count(source, "written[written_count] = {{1, false}};"), 1U);
  EXPECT_FALSE(has(source, "p.template bounded"));
  EXPECT_EQ(count(source, "bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};"), 2U);
}

TEST(SystemText, HasTheKernelOfAnUpdateInThePlaceOfASweep) {
  const std::string source = files_of(
                                 "dimensions: 2\nboundary: nearest\nfields: [k, u, w]\nstages: [{w: \"w + "
                                 "k*(u[0, 1] + u[0, -1])\"}]\n")
                                 .source;
  EXPECT_TRUE(has(source, "#include <spider/host_form.h>\n"));
  EXPECT_TRUE(has(source, "/// Stage 1: w. update0 computes it.\nstruct Sweep0 {"));
  EXPECT_TRUE(has(source, "constexpr std::int32_t fields_of_update0[] = {0};\n"));
  EXPECT_TRUE(has(source, "by_update0 = {&update0::kernel, 1, 2, fields_of_update0};"));
  EXPECT_TRUE(has(source, "spider::system_sweep<Sweep0>(1, &by_update0),"));
  EXPECT_FALSE(has(source, "spider::system_form<"));
}

TEST(SystemText, BoundsWhatAFusedStageReadsAround) {
  const std::string source = files_of(
                                 "dimensions: 3\nboundary: {constant: 1}\nfields: [u, w]\n"
                                 "stages: [{u: u + w}, {w: \"w + u[0, -1, 2]\"}]\n")
                                 .source;
  EXPECT_TRUE(has(source, "= p.template bounded<0, 0, -1, 2>("));
  EXPECT_EQ(count(source, "p.template bounded<"), 1U);
  EXPECT_TRUE(has(source, "bounded_low[3] = {0, 1, 0}, bounded_high[3] = {0, 0, 2};"));
}

TEST(SystemText, ComputesInDoublesWhereAFieldIsOne) {
  const std::string source =
      files_of("dimensions: 1\nfields: {u: {}, d: {storage: f64}}\nstages: [{u: 0.1*u + d}]\n").source;
  EXPECT_TRUE(has(source, "using Number = double;"));
  EXPECT_TRUE(has(source, "p.number(0.1)"));
}

TEST(SystemText, ReadsNoPointWhereItNeedsNone) {
  const std::string source = files_of("dimensions: 1\nfields: [u]\nstages: [{u: 1}]\n").source;
  EXPECT_TRUE(has(source, "static_cast<void>(p);"));
  EXPECT_TRUE(has(source, "rows[1] = {\n      {}\n"));
  EXPECT_TRUE(has(source, "results[0] = p.number(1.0F);  // u"));
}

TEST(SystemText, TellsInTheHeaderHowItIsCalled) {
  const Files files = files_of(small);
  EXPECT_TRUE(has(files.source, "#include <spider/kernels/system.h>"));
  EXPECT_TRUE(has(files.source, "#include <spider/system_form.h>"));
  EXPECT_TRUE(has(files.header,
                  " * u f32, two buffers; y constant 0.5; x constant 0.5\n"
                  " * k f16, read; y nearest; x nearest\n"
                  " * d f32 along x alone, read; x constant 0.5\n"
                  " * Scalars: dt */\n"
                  "SPIDER_PUBLIC const spider_kernel* t_kernel(void);"));
}

}  // namespace
}  // namespace spidergen::emit
