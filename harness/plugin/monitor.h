// Runs work that loads plugins into its own process, and watches that process.
#pragma once

#include <functional>
#include <string>

namespace fairdraw::harness::plugin {

/// Runs `work` in another process and returns its result. If `work` throws an exception, this
/// function throws a UsageError with the same text. The worker process has a keeper (keeper.h), so
/// all processes that the worker starts end with the worker and with this process. If the worker
/// process ends before `work` returns, with any exit code (a plugin called exit(), or crashed),
/// this function throws a UsageError that says so and names `plugins`. Precondition: this process
/// has no other threads. Changes that `work` makes in memory are lost.
int monitored(const std::string& plugins, const std::function<int()>& work);

/// Ends this process at once with `code`. In a monitored() process, `code` counts as the result of
/// the work. The function is for work that has left threads behind.
[[noreturn]] void end_work(int code);

}  // namespace fairdraw::harness::plugin
