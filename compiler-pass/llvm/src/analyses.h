// Analyses for a pipeline, known to each other, as PassBuilder's users set them up (LLVM, "Using the New Pass Manager").
//
// Trap: they refer to each other, so they are destroyed in the reverse of this order, and never copied.
#pragma once
#include "llvm/Passes/PassBuilder.h"

struct Analyses {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;

  explicit Analyses(llvm::PassBuilder &builder) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
  }
};
