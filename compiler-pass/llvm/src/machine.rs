//! The target: LLVM's knowledge of the CPU, and sizes of types on it.
//!
//! Inside clang the x86 target is registered already. Registering it again is harmless, but only because both
//! registrations come from the one LLVM library of the process.

use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetData, TargetMachine, TargetTriple,
};
use inkwell::types::BasicTypeEnum;

use crate::{Module, Type};

/// Target triple of all CPU code. The CPU itself is named per function, so host code in the same module keeps its own.
const TRIPLE: &std::ffi::CStr = c"x86_64-unknown-linux-gnu";

/// LLVM's knowledge of the target CPU.
#[derive(Debug)]
pub struct Machine {
    machine: TargetMachine,
    layout: TargetData,
}

impl Machine {
    /// # Errors
    /// If LLVM does not know the CPU's target.
    pub fn new(cpu: &str) -> Result<Self, String> {
        let without_assembly = InitializationConfig {
            asm_parser: false,
            asm_printer: false,
            base: true,
            disassembler: false,
            info: true,
            machine_code: true,
        };
        Target::initialize_x86(&without_assembly);
        let triple = TargetTriple::create(&TRIPLE.to_string_lossy());
        let target = Target::from_triple(&triple).map_err(|message| message.to_string())?;
        let (level, code) = (OptimizationLevel::Aggressive, CodeModel::Default);
        let machine = target.create_target_machine(&triple, cpu, "", level, RelocMode::PIC, code);
        let machine = machine.ok_or("LLVM makes no such target machine")?;
        let layout = machine.get_target_data();
        Ok(Machine { machine, layout })
    }

    pub(crate) fn ink(&self) -> &TargetMachine {
        &self.machine
    }

    /// Size in bytes, as an array element.
    #[must_use]
    #[track_caller]
    pub fn size_of(&self, ty: Type<'_>) -> u64 {
        self.layout.get_abi_size(&ty.basic())
    }

    /// Offset of a field in bytes from the start of the structure.
    #[must_use]
    #[track_caller]
    pub fn offset_of(&self, structure: Type<'_>, field: u32) -> u64 {
        offset_in(&self.layout, structure, field)
    }

    #[must_use]
    #[track_caller]
    pub fn align_of(&self, ty: Type<'_>) -> u32 {
        self.layout.get_abi_alignment(&ty.basic())
    }
}

#[track_caller]
pub(crate) fn offset_in(layout: &TargetData, structure: Type<'_>, field: u32) -> u64 {
    match structure.basic() {
        BasicTypeEnum::StructType(ty) if field < ty.count_fields() => {
            layout.offset_of_element(&ty, field).expect("a field of the structure")
        }
        _ => panic!("{} has no field {field}", structure.to_text()),
    }
}

impl Module<'_> {
    /// Makes this a module for the CPU.
    pub fn set_target(&self, machine: &Machine) {
        self.set_triple(TRIPLE);
        self.ink().set_data_layout(&machine.layout.get_data_layout());
    }

    /// Clears the target triple. The linker warns when two modules spell theirs differently (`-pc-`, `-unknown-`), and
    /// clang's handler crashes on such a warning from a pass.
    pub fn forget_triple(&self) {
        self.set_triple(c"");
    }
}
