//! Handles to LLVM's objects, so that the rest of the crate reads as compiler code and not as foreign calls.
//!
//! Trap: handles are plain pointers without lifetimes, as in LLVM itself. One is valid until its object is erased or its
//! [`Context`] dropped; no function of this crate lets one escape from `convert`, which owns the only context, and values
//! are re-read from the module after every pass run.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use llvm_sys::core::*;
use llvm_sys::debuginfo::*;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;
use llvm_sys::target::*;
use llvm_sys::target_machine::*;
use llvm_sys::transforms::pass_builder::*;
pub(crate) use llvm_sys::{LLVMLinkage, LLVMOpcode as Opcode, LLVMTypeKind as TypeKind};

/// Calls LLVM's C interface.
macro_rules! llvm {
    ($call:expr) => {{
        // SAFETY: every handle reaching a call is live (see the module header), on the one thread that owns the context,
        // and of the kind the function documents: the wrappers take typed handles and check opcodes before they ask for
        // what only some instructions have.
        unsafe { $call }
    }};
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value(LLVMValueRef);
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type(LLVMTypeRef);
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block(LLVMBasicBlockRef);

/// Copies LLVM's string and frees it.
fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returns NUL-terminated strings here, ours to dispose of.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    llvm!(LLVMDisposeMessage(message));
    text
}

fn bytes_at(start: *const c_char, length: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: LLVM names are valid for the length it returned beside them, until the object changes; copied at once.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn name_of_length(get: impl FnOnce(*mut usize) -> *const c_char) -> String {
    let mut length = 0;
    let start = get(&mut length);
    bytes_at(start, length)
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("names and passes have no NUL")
}

/// An LLVM context of our own; its diagnostics are collected instead of printed (or, for errors, exiting).
pub(crate) struct Context {
    raw: LLVMContextRef,
    messages: Rc<RefCell<Vec<String>>>,
}

extern "C" fn collect(info: LLVMDiagnosticInfoRef, messages: *mut c_void) {
    // SAFETY: `Context::new` registered the cell that its `messages` keep alive as long as the context, and LLVM calls
    // back only from inside a call on this context, on the thread that owns both.
    let messages = unsafe { &*messages.cast::<RefCell<Vec<String>>>() };
    messages.borrow_mut().push(take_message(llvm!(LLVMGetDiagInfoDescription(info))));
}

impl Context {
    pub fn new() -> Self {
        let raw = llvm!(LLVMContextCreate());
        let messages: Rc<RefCell<Vec<String>>> = Rc::default();
        let sink = Rc::as_ptr(&messages).cast_mut().cast::<c_void>();
        llvm!(LLVMContextSetDiagnosticHandler(raw, Some(collect), sink));
        Context { raw, messages }
    }

    /// What LLVM said so far.
    pub fn messages(&self) -> String {
        self.messages.borrow().join("; ")
    }

    fn buffer(contents: &[u8]) -> LLVMMemoryBufferRef {
        llvm!(LLVMCreateMemoryBufferWithMemoryRangeCopy(
            contents.as_ptr().cast(),
            contents.len(),
            c"".as_ptr()
        ))
    }

    pub fn parse_bitcode(&self, bitcode: &[u8]) -> Result<Module, String> {
        let buffer = Self::buffer(bitcode);
        let mut module = null_mut();
        let failed = llvm!(LLVMParseBitcodeInContext2(self.raw, buffer, &mut module));
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        if failed == 0 { Ok(Module { raw: module }) } else { Err(self.messages()) }
    }

    pub fn parse_text(&self, text: &str) -> Result<Module, String> {
        let buffer = Self::buffer(text.as_bytes());
        let (mut module, mut message) = (null_mut(), null_mut());
        let failed = llvm!(LLVMParseIRInContext2(self.raw, buffer, &mut module, &mut message));
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        if failed == 0 { Ok(Module { raw: module }) } else { Err(take_message(message)) }
    }

    pub fn metadata_kind(&self, name: &str) -> u32 {
        llvm!(LLVMGetMDKindIDInContext(self.raw, name.as_ptr().cast(), name.len() as u32))
    }

    pub fn int_type(&self, bits: u32) -> Type {
        Type(llvm!(LLVMIntTypeInContext(self.raw, bits)))
    }

    pub fn void_type(&self) -> Type {
        Type(llvm!(LLVMVoidTypeInContext(self.raw)))
    }

    pub fn ptr_type(&self, address_space: u32) -> Type {
        Type(llvm!(LLVMPointerTypeInContext(self.raw, address_space)))
    }

    pub fn token_none(&self) -> Value {
        Value(llvm!(LLVMConstNull(LLVMTokenTypeInContext(self.raw))))
    }

    pub fn append_block(&self, function: Value, name: &str) -> Block {
        Block(llvm!(LLVMAppendBasicBlockInContext(self.raw, function.0, c_string(name).as_ptr())))
    }

    pub fn builder(&self) -> Builder {
        Builder { raw: llvm!(LLVMCreateBuilderInContext(self.raw)), context: self.raw }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        llvm!(LLVMContextDispose(self.raw));
    }
}

pub(crate) struct Module {
    raw: LLVMModuleRef,
}

impl Module {
    pub fn triple(&self) -> String {
        // SAFETY: the triple is a NUL-terminated string owned by the module.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    pub fn inline_assembly(&self) -> String {
        name_of_length(|length| llvm!(LLVMGetModuleInlineAsm(self.raw, length)))
    }

    pub fn set_target(&self, machine: &Machine) {
        llvm!(LLVMSetTarget(self.raw, c_string(TRIPLE).as_ptr()));
        llvm!(LLVMSetModuleDataLayout(self.raw, machine.layout));
    }

    /// Leaves the target triple open. The linker warns when two modules spell theirs differently (`-pc-`, `-unknown-`),
    /// and clang's handler of such a warning crashes when it comes from a pass.
    pub fn forget_triple(&self) {
        llvm!(LLVMSetTarget(self.raw, c"".as_ptr()));
    }

    /// Takes over target and data layout, so that linking into `other` brings no warning.
    pub fn set_layout_of(&self, other: &Module) {
        // SAFETY: both strings belong to `other` and are copied by the calls.
        unsafe {
            LLVMSetTarget(self.raw, LLVMGetTarget(other.raw));
            LLVMSetDataLayout(self.raw, LLVMGetDataLayoutStr(other.raw));
        }
    }

    pub fn functions(&self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstFunction(self.raw));
        walk(first, |f| llvm!(LLVMGetNextFunction(f))).map(Value).collect()
    }

    pub fn globals(&self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstGlobal(self.raw));
        walk(first, |g| llvm!(LLVMGetNextGlobal(g))).map(Value).collect()
    }

    pub fn function(&self, name: &str) -> Option<Value> {
        let found = llvm!(LLVMGetNamedFunction(self.raw, c_string(name).as_ptr()));
        (!found.is_null()).then_some(Value(found))
    }

    pub fn add_function(&self, name: &str, ty: Type) -> Value {
        Value(llvm!(LLVMAddFunction(self.raw, c_string(name).as_ptr(), ty.0)))
    }

    pub fn add_global(&self, name: &str, ty: Type) -> Value {
        Value(llvm!(LLVMAddGlobal(self.raw, ty.0, c_string(name).as_ptr())))
    }

    /// Declares an intrinsic that LLVM itself spells: signatures of coroutine intrinsics change between versions.
    pub fn intrinsic(&self, name: &str, overloads: &[Type]) -> Value {
        let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
        let mut overloads: Vec<LLVMTypeRef> = overloads.iter().map(|t| t.0).collect();
        Value(llvm!(LLVMGetIntrinsicDeclaration(self.raw, id, overloads.as_mut_ptr(), overloads.len())))
    }

    /// Moves everything of `other` here.
    pub fn link(&self, other: Module) -> Result<(), ()> {
        let source = other.raw;
        std::mem::forget(other);
        if llvm!(LLVMLinkModules2(self.raw, source)) == 0 { Ok(()) } else { Err(()) }
    }

    pub fn verify(&self) -> Result<(), String> {
        let mut message = null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        let broken = llvm!(LLVMVerifyModule(self.raw, action, &mut message));
        let message = take_message(message);
        if broken == 0 { Ok(()) } else { Err(message) }
    }

    pub fn run_passes(&self, passes: &str, machine: &Machine) -> Result<(), String> {
        let options = llvm!(LLVMCreatePassBuilderOptions());
        let error = llvm!(LLVMRunPasses(self.raw, c_string(passes).as_ptr(), machine.raw, options));
        llvm!(LLVMDisposePassBuilderOptions(options));
        if error.is_null() {
            return Ok(());
        }
        let message = llvm!(LLVMGetErrorMessage(error));
        // SAFETY: the message is NUL-terminated and ours to dispose of.
        let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        llvm!(LLVMDisposeErrorMessage(message));
        Err(text)
    }

    pub fn strip_debug_info(&self) {
        llvm!(LLVMStripModuleDebugInfo(self.raw));
    }

    pub fn to_text(&self) -> String {
        take_message(llvm!(LLVMPrintModuleToString(self.raw)))
    }

    pub fn to_bitcode(&self) -> Vec<u8> {
        let buffer = llvm!(LLVMWriteBitcodeToMemoryBuffer(self.raw));
        let (start, size) = (llvm!(LLVMGetBufferStart(buffer)), llvm!(LLVMGetBufferSize(buffer)));
        // SAFETY: LLVM's buffer holds `size` bytes at `start` until it is disposed of below.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec();
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        bytes
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        llvm!(LLVMDisposeModule(self.raw));
    }
}

/// An intrusive list of LLVM's, from its first element to the null that ends it.
fn walk<T>(first: *mut T, next: impl Fn(*mut T) -> *mut T) -> impl Iterator<Item = *mut T> {
    let some = |at: *mut T| (!at.is_null()).then_some(at);
    std::iter::successors(some(first), move |&at| some(next(at)))
}

/// What all CPU code is for. The CPU itself is named per function, so host code in the same module keeps its own.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// LLVM's knowledge of the target CPU.
pub(crate) struct Machine {
    raw: LLVMTargetMachineRef,
    layout: LLVMTargetDataRef,
}

impl Machine {
    pub fn new(cpu: &str) -> Result<Self, String> {
        // SAFETY: registering a target twice, or while clang has it registered, stores the same pointers again.
        unsafe {
            LLVMInitializeX86TargetInfo();
            LLVMInitializeX86Target();
            LLVMInitializeX86TargetMC();
        }
        let triple = c_string(TRIPLE);
        let (mut target, mut message) = (null_mut(), null_mut());
        if llvm!(LLVMGetTargetFromTriple(triple.as_ptr(), &mut target, &mut message)) != 0 {
            return Err(take_message(message));
        }
        let raw = llvm!(LLVMCreateTargetMachine(
            target,
            triple.as_ptr(),
            c_string(cpu).as_ptr(),
            c"".as_ptr(),
            LLVMCodeGenOptLevel::LLVMCodeGenLevelAggressive,
            LLVMRelocMode::LLVMRelocPIC,
            LLVMCodeModel::LLVMCodeModelDefault,
        ));
        if raw.is_null() {
            return Err("LLVM makes no such target machine".to_owned());
        }
        Ok(Machine { raw, layout: llvm!(LLVMCreateTargetDataLayout(raw)) })
    }

    /// In bytes, as an array element.
    pub fn size_of(&self, ty: Type) -> u64 {
        llvm!(LLVMABISizeOfType(self.layout, ty.0))
    }

    pub fn align_of(&self, ty: Type) -> u32 {
        llvm!(LLVMABIAlignmentOfType(self.layout, ty.0))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        llvm!(LLVMDisposeTargetData(self.layout));
        llvm!(LLVMDisposeTargetMachine(self.raw));
    }
}

impl Type {
    pub fn kind(self) -> TypeKind {
        llvm!(LLVMGetTypeKind(self.0))
    }

    /// The element type of an array or vector.
    pub fn element(self) -> Type {
        Type(llvm!(LLVMGetElementType(self.0)))
    }

    pub fn vector_length(self) -> u32 {
        llvm!(LLVMGetVectorSize(self.0))
    }

    pub fn pointer_address_space(self) -> u32 {
        llvm!(LLVMGetPointerAddressSpace(self.0))
    }

    pub fn param_types(self) -> Vec<Type> {
        let mut types = vec![null_mut(); llvm!(LLVMCountParamTypes(self.0)) as usize];
        llvm!(LLVMGetParamTypes(self.0, types.as_mut_ptr()));
        types.into_iter().map(Type).collect()
    }

    pub fn function(result: Type, params: &[Type]) -> Type {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        Type(llvm!(LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0)))
    }

    pub fn array(self, length: u64) -> Type {
        Type(llvm!(LLVMArrayType2(self.0, length)))
    }

    pub fn constant(self, value: u64) -> Value {
        Value(llvm!(LLVMConstInt(self.0, value, 0)))
    }

    pub fn null(self) -> Value {
        Value(llvm!(LLVMConstNull(self.0)))
    }

    pub fn to_text(self) -> String {
        take_message(llvm!(LLVMPrintTypeToString(self.0)))
    }
}

impl Value {
    pub fn name(self) -> String {
        name_of_length(|length| llvm!(LLVMGetValueName2(self.0, length)))
    }

    pub fn set_name(self, name: &str) {
        llvm!(LLVMSetValueName2(self.0, name.as_ptr().cast(), name.len()));
    }

    pub fn ty(self) -> Type {
        Type(llvm!(LLVMTypeOf(self.0)))
    }

    pub fn replace_uses_with(self, other: Value) {
        llvm!(LLVMReplaceAllUsesWith(self.0, other.0));
    }

    /// Instructions and constants that use this value.
    pub fn users(self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstUse(self.0));
        walk(first, |u| llvm!(LLVMGetNextUse(u))).map(|u| Value(llvm!(LLVMGetUser(u)))).collect()
    }

    pub fn operands(self) -> Vec<Value> {
        let count = llvm!(LLVMGetNumOperands(self.0));
        (0..count as u32).map(|i| Value(llvm!(LLVMGetOperand(self.0, i)))).collect()
    }

    pub fn operand(self, index: u32) -> Value {
        Value(llvm!(LLVMGetOperand(self.0, index)))
    }

    pub fn set_operand(self, index: u32, value: Value) {
        llvm!(LLVMSetOperand(self.0, index, value.0));
    }

    pub fn is_instruction(self) -> bool {
        !llvm!(LLVMIsAInstruction(self.0)).is_null()
    }

    pub fn is_constant(self) -> bool {
        !llvm!(LLVMIsAConstant(self.0)).is_null()
    }

    pub fn is_constant_expression(self) -> bool {
        !llvm!(LLVMIsAConstantExpr(self.0)).is_null()
    }

    pub fn is_global_variable(self) -> bool {
        !llvm!(LLVMIsAGlobalVariable(self.0)).is_null()
    }

    pub fn is_function(self) -> bool {
        !llvm!(LLVMIsAFunction(self.0)).is_null()
    }

    /// The opcode of an instruction or constant expression.
    pub fn opcode(self) -> Option<Opcode> {
        if self.is_instruction() {
            Some(llvm!(LLVMGetInstructionOpcode(self.0)))
        } else if self.is_constant_expression() {
            Some(llvm!(LLVMGetConstOpcode(self.0)))
        } else {
            None
        }
    }

    pub fn constant_integer(self) -> Option<u64> {
        (!llvm!(LLVMIsAConstantInt(self.0)).is_null()).then(|| llvm!(LLVMConstIntGetZExtValue(self.0)))
    }

    pub fn alignment(self) -> u32 {
        llvm!(LLVMGetAlignment(self.0))
    }

    pub fn set_alignment(self, bytes: u32) {
        llvm!(LLVMSetAlignment(self.0, bytes));
    }

    pub fn has_metadata(self, kind: u32) -> bool {
        llvm!(LLVMHasMetadata(self.0)) != 0 && !llvm!(LLVMGetMetadata(self.0, kind)).is_null()
    }

    pub fn metadata(self, kind: u32) -> Option<Value> {
        self.has_metadata(kind).then(|| Value(llvm!(LLVMGetMetadata(self.0, kind))))
    }

    pub fn set_metadata(self, kind: u32, node: Value) {
        llvm!(LLVMSetMetadata(self.0, kind, node.0));
    }

    pub fn remove_metadata(self, kind: u32) {
        llvm!(LLVMSetMetadata(self.0, kind, null_mut()));
    }
}

/// Functions and global variables.
impl Value {
    pub fn is_declaration(self) -> bool {
        llvm!(LLVMIsDeclaration(self.0)) != 0
    }

    pub fn linkage(self) -> LLVMLinkage {
        llvm!(LLVMGetLinkage(self.0))
    }

    pub fn make_internal(self) {
        llvm!(llvm_sys::comdat::LLVMSetComdat(self.0, null_mut()));
        llvm!(LLVMSetLinkage(self.0, LLVMLinkage::LLVMInternalLinkage));
        llvm!(LLVMSetVisibility(self.0, llvm_sys::LLVMVisibility::LLVMDefaultVisibility));
    }

    pub fn set_linkage(self, linkage: LLVMLinkage) {
        llvm!(llvm_sys::comdat::LLVMSetComdat(self.0, null_mut()));
        llvm!(LLVMSetLinkage(self.0, linkage));
    }

    pub fn value_type(self) -> Type {
        Type(llvm!(LLVMGlobalGetValueType(self.0)))
    }

    pub fn calling_convention(self) -> u32 {
        llvm!(LLVMGetFunctionCallConv(self.0))
    }

    pub fn set_calling_convention(self, convention: u32) {
        llvm!(LLVMSetFunctionCallConv(self.0, convention));
    }

    pub fn params(self) -> Vec<Value> {
        (0..llvm!(LLVMCountParams(self.0))).map(|i| Value(llvm!(LLVMGetParam(self.0, i)))).collect()
    }

    pub fn blocks(self) -> Vec<Block> {
        let first = llvm!(LLVMGetFirstBasicBlock(self.0));
        walk(first, |b| llvm!(LLVMGetNextBasicBlock(b))).map(Block).collect()
    }

    pub fn instructions(self) -> Vec<Value> {
        self.blocks().into_iter().flat_map(Block::instructions).collect()
    }

    pub fn delete_function(self) {
        llvm!(LLVMDeleteFunction(self.0));
    }

    pub fn delete_global(self) {
        llvm!(LLVMDeleteGlobal(self.0));
    }

    pub fn initializer(self) -> Option<Value> {
        let found = llvm!(LLVMGetInitializer(self.0));
        (!found.is_null()).then_some(Value(found))
    }

    pub fn set_initializer(self, value: Value) {
        llvm!(LLVMSetInitializer(self.0, value.0));
    }

    /// From now on a variable that anybody may write, whatever the module said.
    pub fn make_mutable(self) {
        llvm!(LLVMSetGlobalConstant(self.0, 0));
        llvm!(LLVMSetExternallyInitialized(self.0, 0));
    }

    pub fn add_attribute(self, name: &str) {
        let attribute = self.enum_attribute(name, 0);
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    pub fn add_attribute_value(self, name: &str, value: u64) {
        let attribute = self.enum_attribute(name, value);
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    fn enum_attribute(self, name: &str, value: u64) -> LLVMAttributeRef {
        let context = llvm!(LLVMGetValueContext(self.0));
        llvm!(LLVMCreateEnumAttribute(context, attribute_kind(name), value))
    }

    pub fn add_string_attribute(self, key: &str, value: &str) {
        let context = llvm!(LLVMGetValueContext(self.0));
        let attribute = llvm!(LLVMCreateStringAttribute(
            context,
            key.as_ptr().cast(),
            key.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32
        ));
        llvm!(LLVMAddAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    pub fn remove_attribute(self, name: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveEnumAttributeAtIndex(self.0, at, attribute_kind(name)));
    }

    pub fn remove_string_attribute(self, key: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveStringAttributeAtIndex(self.0, at, key.as_ptr().cast(), key.len() as u32));
    }

    /// The type a pointer parameter is passed by value as.
    pub fn byval_type(self, param: u32) -> Option<Type> {
        let attribute = llvm!(LLVMGetEnumAttributeAtIndex(self.0, param + 1, attribute_kind("byval")));
        (!attribute.is_null()).then(|| Type(llvm!(LLVMGetTypeAttributeValue(attribute))))
    }

    pub fn param_alignment(self, param: u32) -> Option<u32> {
        let attribute = llvm!(LLVMGetEnumAttributeAtIndex(self.0, param + 1, attribute_kind("align")));
        (!attribute.is_null()).then(|| llvm!(LLVMGetEnumAttributeValue(attribute)) as u32)
    }
}

fn attribute_kind(name: &str) -> u32 {
    llvm!(LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
}

/// Instructions.
impl Value {
    pub fn parent(self) -> Block {
        Block(llvm!(LLVMGetInstructionParent(self.0)))
    }

    pub fn erase(self) {
        llvm!(LLVMInstructionEraseFromParent(self.0));
    }

    /// The function a call names, unless it calls through a pointer or is inline assembly.
    pub fn callee(self) -> Option<Value> {
        let called = self.called_value();
        called.is_function().then_some(called)
    }

    pub fn called_value(self) -> Value {
        Value(llvm!(LLVMGetCalledValue(self.0)))
    }

    pub fn call_arguments(self) -> Vec<Value> {
        (0..llvm!(LLVMGetNumArgOperands(self.0))).map(|i| self.operand(i)).collect()
    }

    pub fn remove_call_attribute(self, name: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveCallSiteEnumAttribute(self.0, at, attribute_kind(name)));
    }

    /// The text of inline assembly, for a called value.
    pub fn assembly(self) -> Option<String> {
        (!llvm!(LLVMIsAInlineAsm(self.0)).is_null())
            .then(|| name_of_length(|length| llvm!(LLVMGetInlineAsmAsmString(self.0, length))))
    }

    pub fn incoming(self) -> Vec<(Value, Block)> {
        (0..llvm!(LLVMCountIncoming(self.0)))
            .map(|i| {
                (Value(llvm!(LLVMGetIncomingValue(self.0, i))), Block(llvm!(LLVMGetIncomingBlock(self.0, i))))
            })
            .collect()
    }

    pub fn gep_source(self) -> Type {
        Type(llvm!(LLVMGetGEPSourceElementType(self.0)))
    }

    /// `file:line` of the outermost inlined call, which is where the user's kernel says it.
    pub fn source_place(self) -> Option<String> {
        let mut location = llvm!(LLVMInstructionGetDebugLoc(self.0));
        if location.is_null() {
            return None;
        }
        loop {
            let outer = llvm!(LLVMDILocationGetInlinedAt(location));
            if outer.is_null() {
                break;
            }
            location = outer;
        }
        let file = llvm!(LLVMDIScopeGetFile(LLVMDILocationGetScope(location)));
        if file.is_null() {
            return None;
        }
        let mut length = 0;
        let start = llvm!(LLVMDIFileGetFilename(file, &mut length));
        Some(format!("{}:{}", bytes_at(start, length as usize), llvm!(LLVMDILocationGetLine(location))))
    }
}

impl Block {
    pub fn instructions(self) -> Vec<Value> {
        let first = llvm!(LLVMGetFirstInstruction(self.0));
        walk(first, |i| llvm!(LLVMGetNextInstruction(i))).map(Value).collect()
    }

    pub fn terminator(self) -> Value {
        Value(llvm!(LLVMGetBasicBlockTerminator(self.0)))
    }

    /// Puts this block behind `other`, in `other`'s function.
    pub fn move_after(self, other: Block) {
        llvm!(LLVMMoveBasicBlockAfter(self.0, other.0));
    }

    fn as_value(self) -> LLVMValueRef {
        llvm!(LLVMBasicBlockAsValue(self.0))
    }

    /// Redirects what refers to this block (branches to it, and PHIs of its successors) to `other`.
    fn replace_uses_with(self, other: Block) {
        llvm!(LLVMReplaceAllUsesWith(self.as_value(), other.as_value()));
    }
}

pub(crate) struct Builder {
    raw: LLVMBuilderRef,
    context: LLVMContextRef,
}

impl Builder {
    pub fn before(&self, instruction: Value) -> &Self {
        llvm!(LLVMPositionBuilderBefore(self.raw, instruction.0));
        self
    }

    pub fn at_end(&self, block: Block) -> &Self {
        llvm!(LLVMPositionBuilderAtEnd(self.raw, block.0));
        self
    }

    /// Moves `instruction` and all that follow it in its block into a new block, and returns that one. The old block is
    /// left without a terminator, and the PHIs of the old block's successors name the new one.
    pub fn split_before(&self, instruction: Value, name: &str) -> Block {
        let head = instruction.parent();
        let name = c_string(name);
        let function = llvm!(LLVMGetBasicBlockParent(head.0));
        let tail = Block(llvm!(LLVMAppendBasicBlockInContext(self.context, function, name.as_ptr())));
        tail.move_after(head);
        // The first call redirects branches to `head` and the successors' PHIs; the second brings the branches back and
        // leaves the PHIs, because `tail` has no terminator yet and so no successors.
        head.replace_uses_with(tail);
        tail.replace_uses_with(head);
        let instructions = head.instructions();
        let first = instructions.iter().position(|&i| i == instruction).expect("it is in its parent");
        self.at_end(tail);
        for moved in &instructions[first..] {
            self.move_here(*moved);
        }
        tail
    }

    pub fn call(&self, function: Value, args: &[Value]) -> Value {
        self.call_typed(function.value_type(), function, args)
    }

    fn call_typed(&self, ty: Type, function: Value, args: &[Value]) -> Value {
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        let count = args.len() as u32;
        Value(llvm!(LLVMBuildCall2(self.raw, ty.0, function.0, args.as_mut_ptr(), count, c"".as_ptr())))
    }

    pub fn alloca(&self, ty: Type, align: u32) -> Value {
        let slot = Value(llvm!(LLVMBuildAlloca(self.raw, ty.0, c"".as_ptr())));
        slot.set_alignment(align);
        slot
    }

    pub fn store(&self, value: Value, pointer: Value) -> Value {
        Value(llvm!(LLVMBuildStore(self.raw, value.0, pointer.0)))
    }

    pub fn copy_bytes(&self, to: Value, from: Value, align: u32, bytes: Value) -> Value {
        Value(llvm!(LLVMBuildMemCpy(self.raw, to.0, align, from.0, align, bytes.0)))
    }

    /// `pointer + offset` in bytes.
    pub fn offset(&self, pointer: Value, bytes: Value) -> Value {
        let i8 = llvm!(LLVMInt8TypeInContext(self.context));
        let mut index = bytes.0;
        Value(llvm!(LLVMBuildGEP2(self.raw, i8, pointer.0, &mut index, 1, c"".as_ptr())))
    }

    pub fn gep(&self, source: Type, operands: &[Value]) -> Value {
        let mut indices: Vec<LLVMValueRef> = operands[1..].iter().map(|v| v.0).collect();
        let count = indices.len() as u32;
        let pointer = operands[0].0;
        Value(llvm!(LLVMBuildGEP2(self.raw, source.0, pointer, indices.as_mut_ptr(), count, c"".as_ptr())))
    }

    pub fn cast(&self, opcode: Opcode, value: Value, to: Type) -> Value {
        Value(llvm!(LLVMBuildCast(self.raw, opcode, value.0, to.0, c"".as_ptr())))
    }

    pub fn binary(&self, opcode: Opcode, left: Value, right: Value) -> Value {
        Value(llvm!(LLVMBuildBinOp(self.raw, opcode, left.0, right.0, c"".as_ptr())))
    }

    pub fn address_space_cast(&self, value: Value, to: Type) -> Value {
        if value.ty() == to {
            return value;
        }
        Value(llvm!(LLVMBuildAddrSpaceCast(self.raw, value.0, to.0, c"".as_ptr())))
    }

    /// Zero-extends or truncates.
    pub fn cast_integer(&self, value: Value, to: Type) -> Value {
        Value(llvm!(LLVMBuildIntCast2(self.raw, value.0, to.0, 0, c"".as_ptr())))
    }

    /// `value` as a `to`, if they differ by address space at most.
    pub fn fit(&self, value: Value, to: Type) -> Option<Value> {
        let pointers = [value.ty(), to].map(|t| t.kind() == TypeKind::LLVMPointerTypeKind);
        match pointers {
            _ if value.ty() == to => Some(value),
            [true, true] => Some(self.address_space_cast(value, to)),
            _ => None,
        }
    }

    /// Takes an instruction out of its block and inserts it here.
    pub fn move_here(&self, instruction: Value) {
        llvm!(LLVMInstructionRemoveFromParent(instruction.0));
        llvm!(LLVMInsertIntoBuilder(self.raw, instruction.0));
    }

    pub fn branch(&self, to: Block) -> Value {
        Value(llvm!(LLVMBuildBr(self.raw, to.0)))
    }

    /// `switch value`, to `otherwise` unless one of `cases` holds.
    pub fn switch(&self, value: Value, otherwise: Block, cases: &[(u64, Block)]) {
        let switch = llvm!(LLVMBuildSwitch(self.raw, value.0, otherwise.0, cases.len() as u32));
        for &(case, block) in cases {
            llvm!(LLVMAddCase(switch, value.ty().constant(case).0, block.0));
        }
    }

    pub fn return_value(&self, value: Value) {
        llvm!(LLVMBuildRet(self.raw, value.0));
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        llvm!(LLVMDisposeBuilder(self.raw));
    }
}

/// A constant address in another address space.
pub(crate) fn constant_address_space_cast(value: Value, to: Type) -> Value {
    Value(llvm!(LLVMConstAddrSpaceCast(value.0, to.0)))
}
