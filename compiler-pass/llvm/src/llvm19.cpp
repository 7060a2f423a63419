// What LLVM 22's C API has and LLVM 19's has not, under the same name.
#include "llvm-c/Transforms/PassBuilder.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Function.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CBindingWrapping.h"

#if LLVM_VERSION_MAJOR < 20
using namespace llvm;

extern "C" LLVMErrorRef LLVMRunPassesOnFunction(LLVMValueRef function, const char *passes, LLVMTargetMachineRef,
                                                LLVMPassBuilderOptionsRef) {
  PassBuilder builder;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  FunctionPassManager manager;
  if (Error error = builder.parsePassPipeline(manager, passes))
    return wrap(std::move(error));
  manager.run(*unwrap<Function>(function), functions);
  return LLVMErrorSuccess;
}
#endif
