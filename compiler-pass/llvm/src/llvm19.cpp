// What LLVM 22's C API has and LLVM 19's has not, under the same name.
#include "analyses.h"
#include "llvm-c/Transforms/PassBuilder.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Function.h"
#include "llvm/Support/CBindingWrapping.h"

#if LLVM_VERSION_MAJOR < 20
using namespace llvm;

extern "C" LLVMErrorRef LLVMRunPassesOnFunction(LLVMValueRef function, const char *passes, LLVMTargetMachineRef,
                                                LLVMPassBuilderOptionsRef) {
  PassBuilder builder;
  Analyses analyses(builder);
  FunctionPassManager manager;
  if (Error error = builder.parsePassPipeline(manager, passes))
    return wrap(std::move(error));
  manager.run(*unwrap<Function>(function), analyses.functions);
  return LLVMErrorSuccess;
}
#endif
