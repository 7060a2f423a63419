//! Tensor-core operations, which the 32 lanes of a warp compute together from their fragments of matrices.
//!
//! A lane waits with the address of its record, which holds its registers of A, B and C in this order; the registers of
//! the result overwrite them from the start. PTX (ISA 9.0, "mma") leaves order and rounding open. Floating-point
//! numbers of at most 32 bits are added as an H100 adds them (`real`); in double precision fused multiply-adds add one
//! product after the other along the inner side, starting with C's element. Integers are exact, and wrap or saturate at
//! the end. Trap: a lane's record may lie in its coroutine's frame, so it is valid only while the lane waits.

mod element;
mod layout;
mod real;

pub use element::Element;
pub use layout::{Matrix, spread};

use crate::abi::{TENSOR_WORDS, Wait, tensor_form as form};
use crate::warp::{WARP, WaitKind};

/// Registers of one lane.
type Record = [u32; TENSOR_WORDS];

/// A decoded multiplication. Sizes are logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    m: u32,
    n: u32,
    k: u32,
    a: Element,
    b: Element,
    c: Element,
    d: Element,
    saturates: bool,
    /// Single bits are combined by "and" instead of "exclusive or".
    by_and: bool,
    a_by_columns: bool,
    b_by_rows: bool,
}

impl Form {
    /// Decodes the numbers of a call; `None` for a form that no kernel uses.
    pub fn from_bits(bits: u32, element_bits: u32) -> Option<Form> {
        let element = |shift: u32| Element::from_number(element_bits >> shift & 0xf);
        let has = |flag: u32| bits & flag != 0;
        let form = Form {
            m: bits >> form::M_SHIFT & 0xf,
            n: bits >> form::N_SHIFT & 0xf,
            k: bits >> form::K_SHIFT & 0xf,
            a: element(form::A_SHIFT)?,
            b: element(form::B_SHIFT)?,
            c: element(form::C_SHIFT)?,
            d: element(form::D_SHIFT)?,
            saturates: has(form::SATURATES),
            by_and: has(form::BY_AND),
            a_by_columns: has(form::A_BY_COLUMNS),
            b_by_rows: has(form::B_BY_ROWS),
        };
        let fits = |&matrix: &Matrix, element: Element| form.words(matrix, element) <= TENSOR_WORDS / 2;
        let known = (3..=5).contains(&form.m) && (3..=5).contains(&form.n) && (2..=8).contains(&form.k);
        (known && fits(&Matrix::A, form.a) && fits(&Matrix::B, form.b) && form.inputs() <= TENSOR_WORDS)
            .then_some(form)
    }

    fn sizes(&self) -> [usize; 3] {
        [1 << self.m, 1 << self.n, 1 << self.k]
    }

    /// Number of registers of one lane.
    fn words(&self, matrix: Matrix, element: Element) -> usize {
        self.count(matrix) * element.bits() / 32
    }

    fn inputs(&self) -> usize {
        self.words(Matrix::A, self.a) + self.words(Matrix::B, self.b) + self.words(Matrix::C, self.c)
    }
}

/// Reads element number `index` of a matrix whose first register is `word`.
fn bits_at(record: &Record, word: usize, element: Element, index: usize) -> u64 {
    let bits = element.bits();
    if bits == 64 {
        let at = word + 2 * index;
        return u64::from(record[at]) | u64::from(record[at + 1]) << 32;
    }
    let at = index * bits;
    u64::from(record[word + at / 32]) >> (at % 32) & ((1 << bits) - 1)
}

fn put_bits(record: &mut Record, element: Element, index: usize, value: u64) {
    let bits = element.bits();
    if bits == 64 {
        record[2 * index] = value as u32;
        record[2 * index + 1] = (value >> 32) as u32;
        return;
    }
    let at = index * bits;
    let word = &mut record[at / 32];
    let mask = (((1_u64 << bits) - 1) as u32) << (at % 32);
    *word = *word & !mask | (value as u32) << (at % 32);
}

/// Functions that read, combine and write elements of one kind.
struct Arithmetic<T> {
    read: fn(Element, u64) -> T,
    add_product: fn(T, T, T) -> T,
    write: fn(&Form, T) -> u64,
}

/// Computes the results of all lanes in their records.
pub fn multiply(form: &Form, lanes: &mut [Record; WARP]) {
    match form.a {
        Element::F64 => multiply_as(
            form,
            lanes,
            &Arithmetic {
                read: |_, bits| f64::from_bits(bits),
                add_product: |sum, a, b| a.mul_add(b, sum),
                write: |_, value| value.to_bits(),
            },
        ),
        Element::B1 => {
            let add_product: fn(i64, i64, i64) -> i64 =
                if form.by_and { |sum, a, b| sum + (a & b) } else { |sum, a, b| sum + (a ^ b) };
            multiply_as(
                form,
                lanes,
                &Arithmetic { read: Element::integer, add_product, write: integer_bits },
            );
        }
        Element::S8 | Element::U8 | Element::S4 | Element::U4 => {
            let add_product = |sum, a, b| sum + a * b;
            multiply_as(
                form,
                lanes,
                &Arithmetic { read: Element::integer, add_product, write: integer_bits },
            );
        }
        _ => real::multiply(form, lanes),
    }
}

fn integer_bits(form: &Form, value: i64) -> u64 {
    let held = if form.saturates { value.clamp(i32::MIN.into(), i32::MAX.into()) } else { value };
    u64::from(held as u32)
}

fn multiply_as<T: Copy + Default>(form: &Form, lanes: &mut [Record; WARP], arithmetic: &Arithmetic<T>) {
    let [_, n, k] = form.sizes();
    let [a, b, mut c] = gathered(form, lanes, arithmetic.read);
    for (row, sums) in c.chunks_exact_mut(n).enumerate() {
        for (inner, factors) in b.chunks_exact(n).enumerate() {
            let factor = a[row * k + inner];
            for (sum, &other) in sums.iter_mut().zip(factors) {
                *sum = (arithmetic.add_product)(*sum, factor, other);
            }
        }
    }
    scatter(form, lanes, |at| (arithmetic.write)(form, c[at]));
}

/// Gathers A, B and C from the lanes, each row by row, for one product after the other.
fn gathered<T: Copy + Default>(
    form: &Form,
    lanes: &[Record; WARP],
    read: fn(Element, u64) -> T,
) -> [Vec<T>; 3] {
    let [m, n, k] = form.sizes();
    let mut word = 0;
    [(Matrix::A, form.a, m, k), (Matrix::B, form.b, k, n), (Matrix::C, form.c, m, n)].map(
        |(matrix, element, rows, columns)| {
            let mut whole = vec![T::default(); rows * columns * form.products()];
            for (lane, record) in lanes.iter().enumerate() {
                for index in 0..form.count(matrix) {
                    let [product, row, column] = form.place(matrix, element, lane, index);
                    whole[(product * rows + row) * columns + column] =
                        read(element, bits_at(record, word, element, index));
                }
            }
            word += form.words(matrix, element);
            whole
        },
    )
}

/// Distributes the result to the lanes; `bits` takes a position in C as [`gathered`] lays it out.
fn scatter(form: &Form, lanes: &mut [Record; WARP], bits: impl Fn(usize) -> u64) {
    let [m, n, _] = form.sizes();
    for (lane, record) in lanes.iter_mut().enumerate() {
        for index in 0..form.count(Matrix::C) {
            let [product, row, column] = form.place(Matrix::C, form.d, lane, index);
            put_bits(record, form.d, index, bits((product * m + row) * n + column));
        }
    }
}

/// `ldmatrix` and `stmatrix` (PTX ISA 9.0): lanes pass the addresses of rows of 16 bytes, eight for each matrix, and
/// get the addresses of the elements that they hold: two neighbours in a row, or two in a column if the matrix is
/// transposed.
pub fn addresses(count: usize, transposed: bool, lanes: &mut [Record; WARP]) {
    let rows: [u64; WARP] =
        std::array::from_fn(|lane| u64::from(lanes[lane][0]) | u64::from(lanes[lane][1]) << 32);
    for (lane, record) in lanes.iter_mut().enumerate() {
        let mut put = |index: usize, address: u64| {
            record[2 * index] = address as u32;
            record[2 * index + 1] = (address >> 32) as u32;
        };
        let (group, inside) = (lane / 4, lane % 4);
        for matrix in 0..count {
            if transposed {
                for half in 0..2 {
                    put(
                        2 * matrix + half,
                        rows[8 * matrix + 2 * inside + half].wrapping_add(2 * group as u64),
                    );
                }
            } else {
                put(matrix, rows[8 * matrix + group].wrapping_add(4 * inside as u64));
            }
        }
    }
}

/// `movmatrix` (PTX ISA 9.0): transposes a matrix of 8 by 8 elements of 16 bits.
pub fn transpose(lanes: &mut [Record; WARP]) {
    let words: [u32; WARP] = std::array::from_fn(|lane| lanes[lane][0]);
    let element = |row: usize, column: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
    for (lane, record) in lanes.iter_mut().enumerate() {
        let (row, column) = (lane / 4, lane % 4 * 2);
        record[0] = element(column, row) | element(column + 1, row) << 16;
    }
}

/// True if all lanes of a whole warp wait at the same operation.
pub(crate) fn is_complete(warp: &[Wait]) -> bool {
    let same = |wait: &Wait| {
        wait.kind == WaitKind::Tensor as u32
            && (wait.argument, wait.control) == (warp[0].argument, warp[0].control)
    };
    warp.len() == WARP && warp.iter().all(same)
}

/// Performs the operation that all lanes wait at.
///
/// # Safety
/// [`is_complete`] holds, and each lane waits with the address of its own record, which nothing else uses.
pub(crate) unsafe fn complete(warp: &[Wait]) {
    let mut lanes = [[0; TENSOR_WORDS]; WARP];
    for (record, wait) in lanes.iter_mut().zip(warp) {
        // SAFETY: the caller's promise; `MaybeUninit` is not needed, because the memory does not come from Rust, and no
        // operation reads the part that a kernel left unwritten.
        *record = unsafe { (wait.value as *const Record).read_volatile() };
    }
    let (argument, control) = (warp[0].argument, warp[0].control);
    match argument & form::OPERATION {
        form::ADDRESSES => addresses((argument & 7) as usize, argument & form::TRANSPOSED != 0, &mut lanes),
        form::TRANSPOSE => transpose(&mut lanes),
        _ => {
            if let Some(form) = Form::from_bits(argument, control) {
                multiply(&form, &mut lanes);
            }
        }
    }
    for (record, wait) in lanes.iter().zip(warp) {
        // SAFETY: as above.
        unsafe { (wait.value as *mut Record).write_volatile(*record) };
    }
}
