// Watches work that has plugins loaded into its own process.
#pragma once

#include <functional>
#include <string>

namespace fairdraw::harness::plugin {

/// Does `work` in another process, and returns what it returns; an exception becomes a UsageError
/// with its text. That process has a keeper (keeper.h): what it has started ends with it, and with
/// this process. A process that ends before `work` has returned, whatever its exit code
/// (a plugin called exit(), or crashed), is a UsageError that says so and names `plugins`. Call it
/// before there are threads: what `work` changes in memory is lost.
int monitored(const std::string& plugins, const std::function<int()>& work);

/// Ends this process at once, with `code`: where that is monitored(), as if its work had returned
/// it. For work that has left threads behind.
[[noreturn]] void end_work(int code);

}  // namespace fairdraw::harness::plugin
