// The registration of the plugin, which LLVM offers in C++ only.
//
// Everything that decides lies in Rust. Trap: rustc hides the C++ symbols of a cdylib, so the entry point that clang
// looks up, llvmGetPassPluginInfo, is exported from lib.rs and calls eager_register_callbacks here.
#include "llvm-c/Core.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

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
