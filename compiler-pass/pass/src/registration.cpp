// The part of the plugin that LLVM offers in C++ only: registration, and calls that its C API lacks.
//
// Everything that decides lies in Rust. Trap: rustc hides the C++ symbols of a cdylib, so the entry point that clang
// looks up, llvmGetPassPluginInfo, is exported from lib.rs and calls eager_register_callbacks here.
#include "llvm-c/Core.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

// Rust: true if the module was changed.
extern "C" bool eager_run_on_module(LLVMModuleRef module);
// Rust: true if CPU kernels were linked into the module.
extern "C" bool eager_link_kernels(LLVMModuleRef module);
// Rust: true if this module's host code is instrumented by the linker, so that its optimisation has to wait too.
extern "C" bool eager_is_postponed(LLVMModuleRef module);
// Rust: true if the linker runs the plugin on the whole program.
extern "C" bool eager_links_program();

namespace {
// A compiler process has one module; set by the first pass of its pipeline.
bool optimisation_is_postponed = false;

struct EagerPass : PassInfoMixin<EagerPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    optimisation_is_postponed = eager_is_postponed(wrap(&module));
    return eager_run_on_module(wrap(&module)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  // Also at -O0, where clang skips every pass that is not required.
  static bool isRequired() { return true; }
};

// CPU kernels come optimised, so they join the host's module where its own optimisation ends.
struct EagerKernelsPass : PassInfoMixin<EagerKernelsPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    return eager_link_kernels(wrap(&module)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};
} // namespace

// Link-time optimisation: launches and allocations must reach the linker as clang wrote them, so a postponed module is
// optimised by nothing at compile time, and as a part of the program at link time. The two passes named here prepare
// bitcode for the linker.
static void register_whole_program(PassBuilder &builder) {
  if (PassInstrumentationCallbacks *callbacks = builder.getPassInstrumentationCallbacks())
    callbacks->registerShouldRunOptionalPassCallback([](StringRef pass, Any) {
      return !optimisation_is_postponed || pass == "CanonicalizeAliasesPass" || pass == "NameAnonGlobalPass";
    });
  builder.registerFullLinkTimeOptimizationEarlyEPCallback(
      [&builder](ModulePassManager &manager, OptimizationLevel level) {
        if (!eager_links_program())
          return;
        manager.addPass(EagerPass());
        manager.addPass(builder.buildLTOPreLinkDefaultPipeline(level));
      });
}

extern "C" uint32_t eager_plugin_api_version() { return LLVM_PLUGIN_API_VERSION; }

extern "C" void eager_register_callbacks(PassBuilder &builder) {
  builder.registerPipelineStartEPCallback(
      [](ModulePassManager &manager, OptimizationLevel) { manager.addPass(EagerPass()); });
  // LLVM 22 also tells the phase of link-time optimisation.
  builder.registerOptimizerLastEPCallback(
      [](ModulePassManager &manager, auto...) { manager.addPass(EagerKernelsPass()); });
  builder.registerPipelineParsingCallback(
      [](StringRef name, ModulePassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
        if (name != "eager")
          return false;
        manager.addPass(EagerPass());
        manager.addPass(EagerKernelsPass());
        return true;
      });
  register_whole_program(builder);
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

extern "C" void eager_embed(LLVMModuleRef module, const char *bytes, size_t length, const char *section) {
  embedBufferInModule(*unwrap(module), MemoryBufferRef(StringRef(bytes, length), "device code"), section);
}

// A landing pad cannot stand behind other code, so an edge into one gets a landing pad of its own. Null: not possible.
extern "C" LLVMBasicBlockRef eager_split_edge(LLVMBasicBlockRef from, LLVMBasicBlockRef to) {
  BasicBlock *target = unwrap(to);
  if (!target->isLandingPad())
    return wrap(SplitEdge(unwrap(from), target));
  SmallVector<BasicBlock *, 2> parts;
  SplitLandingPadPredecessors(target, {unwrap(from)}, ".eager", ".others", parts);
  return parts.empty() ? nullptr : wrap(parts.front());
}

extern "C" void eager_invoke(LLVMValueRef call, LLVMBasicBlockRef unwind) {
  changeToInvokeAndSplitBasicBlock(cast<CallInst>(unwrap(call)), unwrap(unwind));
}

extern "C" bool eager_is_library_function(LLVMModuleRef module, const char *name) {
  TargetLibraryInfoImpl library(Triple(unwrap(module)->getTargetTriple()));
  LibFunc function;
  return library.getLibFunc(StringRef(name), function);
}

extern "C" bool eager_inline_call(LLVMValueRef value) {
  auto *call = dyn_cast<CallBase>(unwrap(value));
  InlineFunctionInfo info;
  return call && InlineFunction(*call, info).isSuccess();
}

// Constants in functions that are computed from the global become instructions.
extern "C" void eager_expand_constants(LLVMValueRef global) {
  convertUsersOfConstantsToInstructions({unwrap<Constant>(global)});
}

extern "C" bool eager_constant_offset(LLVMModuleRef module, LLVMValueRef gep, int64_t *offset) {
  auto *op = dyn_cast<GEPOperator>(unwrap(gep));
  APInt bytes(64, 0);
  if (!op || !op->accumulateConstantOffset(unwrap(module)->getDataLayout(), bytes))
    return false;
  *offset = bytes.getSExtValue();
  return true;
}
