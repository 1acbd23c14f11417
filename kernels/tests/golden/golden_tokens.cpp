// The program golden_tokens FILE GPU DRIVER DATE runs the table of golden_rows.h on the GPU, and
// writes the tokens to FILE. All paths through the kernels must give the same tokens. Exit codes: 0
// if the file was written; 1 if the tokens differ or a call failed; 2 for bad usage or a missing
// GPU.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "tests/cuda/arrays.h"
#include "tests/golden/golden_rows.h"

namespace fairdraw::suites {
namespace {

GoldenTokens run_on(const OwnedCall& call, cuda::Path path, DeviceArrays& arrays) {
  SampleOutputs outputs(call, {true, true, false, false, false});
  arrays.rewind();
  const SampleRequest request = request_in(call, arrays);
  const SampleResult result = result_in(call, outputs, arrays);
  const Error error = cuda::sample(request, result, arrays.execution(call.rows, path));
  if (error) throw std::runtime_error(error.message);
  arrays.fetch();
  return tokens_of(outputs);
}

int write_golden_tokens(const std::string& path, GoldenFile file) {
  DeviceArrays arrays;
  int differing = 0;
  for (const GoldenInput& input : golden_inputs()) {
    const OwnedCall call = golden_call(input);
    const GoldenTokens given = run_on(call, cuda::Path::best, arrays);
    for (const cuda::Path other : available_paths()) {
      if (run_on(call, other, arrays) == given) continue;
      ++differing;
      std::fprintf(stderr, "golden_tokens: path %s differs: %s\n", cuda::to_string(other),
                   describe_row(call, 0).c_str());
    }
    file.rows.push_back({input, given});
  }
  if (differing > 0) return 1;
  std::ofstream out(path, std::ios::binary);
  out << to_json(file);
  out.close();
  if (!out) {
    std::fprintf(stderr, "golden_tokens: cannot write %s\n", path.c_str());
    return 1;
  }
  std::printf("golden_tokens: %zu rows on %s to %s\n", file.rows.size(), file.gpu.c_str(),
              path.c_str());
  return 0;
}

}  // namespace
}  // namespace fairdraw::suites

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: golden_tokens FILE GPU DRIVER DATE\n");
    return 2;
  }
  if (!fairdraw::cuda::is_available()) {
    std::fprintf(stderr, "golden_tokens: %s\n", fairdraw::cuda::why_not_available().c_str());
    return 2;
  }
  try {
    return fairdraw::suites::write_golden_tokens(argv[1], {argv[2], argv[3], argv[4], {}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_tokens: %s\n", error.what());
    return 1;
  }
}
