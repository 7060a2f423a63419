// The part of the plugin that LLVM offers in C++ only: registration, and five calls that its C API lacks.
//
// Everything that decides lies in Rust. Trap: rustc hides the C++ symbols of a cdylib, so the entry point that clang
// looks up, llvmGetPassPluginInfo, is exported from lib.rs and calls eager_register_callbacks here.
#include "llvm-c/Core.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

// Rust: true if the module was changed.
extern "C" bool eager_run_on_module(LLVMModuleRef module);

namespace {
struct EagerPass : PassInfoMixin<EagerPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    return eager_run_on_module(wrap(&module)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  // Also at -O0, where clang skips every pass that is not required.
  static bool isRequired() { return true; }
};
} // namespace

extern "C" uint32_t eager_plugin_api_version() { return LLVM_PLUGIN_API_VERSION; }

extern "C" void eager_register_callbacks(PassBuilder &builder) {
  builder.registerPipelineStartEPCallback(
      [](ModulePassManager &manager, OptimizationLevel) { manager.addPass(EagerPass()); });
  builder.registerPipelineParsingCallback(
      [](StringRef name, ModulePassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
        if (name != "eager")
          return false;
        manager.addPass(EagerPass());
        return true;
      });
}

extern "C" void eager_emit_error(LLVMModuleRef module, const char *message) {
  unwrap(module)->getContext().emitError(message);
}

extern "C" void eager_append_constructor(LLVMModuleRef module, LLVMValueRef function) {
  appendToGlobalCtors(*unwrap(module), unwrap<Function>(function), 65535);
}

extern "C" void eager_append_used(LLVMModuleRef module, LLVMValueRef global) {
  appendToUsed(*unwrap(module), {unwrap<GlobalValue>(global)});
}

extern "C" LLVMBasicBlockRef eager_split_edge(LLVMBasicBlockRef from, LLVMBasicBlockRef to) {
  return wrap(SplitEdge(unwrap(from), unwrap(to)));
}

extern "C" bool eager_constant_offset(LLVMModuleRef module, LLVMValueRef gep, int64_t *offset) {
  auto *op = dyn_cast<GEPOperator>(unwrap(gep));
  APInt bytes(64, 0);
  if (!op || !op->accumulateConstantOffset(unwrap(module)->getDataLayout(), bytes))
    return false;
  *offset = bytes.getSExtValue();
  return true;
}
