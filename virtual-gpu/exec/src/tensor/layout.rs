//! Which lane of a warp holds which element of a matrix.
//!
//! One rule covers all shapes but the oldest (PTX ISA 9.0, "Matrix Fragments for mma.m16n8k8" and its neighbours): take
//! the side that two matrices are multiplied along as the inner one (the columns of A, the rows of B; of C the columns). A
//! register's elements lie next to each other along it, four lanes hold the next ones, eight such groups of four lie along
//! the outer side; a lane's further elements first go on along the outer side, then along the inner one. Trap: the
//! fragments of `wmma` are opaque to programs, so their layout is our own choice: the same rule, so that it is one that
//! GPUs have had. eager-kernels has the rule too, for `wmma`'s loads and stores.

use super::Form;
use super::element::Element;

/// Place of a lane's element number `index`, along the outer and the inner side; there are `1 << outer_bits` along the outer one
/// and `1 << packed_bits` elements in one register.
pub fn spread(outer_bits: u32, packed_bits: u32, lane: usize, index: usize) -> (usize, usize) {
    let packed = index & ((1 << packed_bits) - 1);
    let rest = index >> packed_bits;
    let further = outer_bits - 3;
    let outer = lane >> 2 | (rest & ((1 << further) - 1)) << 3;
    let inner = packed | (lane & 3) << packed_bits | (rest >> further) << (packed_bits + 2);
    (outer, inner)
}

/// Elements of one register, as a logarithm.
fn packed_bits(element: Element) -> u32 {
    (32 / element.bits().min(32)).trailing_zeros()
}

/// One of the matrices of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    A,
    B,
    C,
}

impl Form {
    /// The four products of 8 by 8 by 4 that one operation was until Volta. Asked for every element, so it looks at the one
    /// side that no other form of halves has.
    pub(super) fn is_quads(&self) -> bool {
        self.k == 2 && self.a == Element::F16
    }

    /// How many products one operation is.
    pub(super) fn products(&self) -> usize {
        if self.is_quads() { 4 } else { 1 }
    }

    /// Elements of a matrix that one lane holds.
    pub(super) fn count(&self, matrix: Matrix) -> usize {
        let [m, n, k] = self.sizes();
        let all = match matrix {
            Matrix::A => m * k,
            Matrix::B => n * k,
            Matrix::C => m * n,
        };
        all * self.products() / 32
    }

    /// Which product a lane's element belongs to, then its row and column.
    pub(super) fn place(&self, matrix: Matrix, element: Element, lane: usize, index: usize) -> [usize; 3] {
        if self.is_quads() {
            return self.place_in_quads(matrix, element, lane, index);
        }
        match matrix {
            Matrix::A => {
                let (row, column) = spread(self.m, packed_bits(element), lane, index);
                [0, row, column]
            }
            Matrix::B => {
                let (column, row) = spread(self.n, packed_bits(element), lane, index);
                [0, row, column]
            }
            Matrix::C => {
                let (row, column) = spread(self.m, 1, lane, index);
                [0, row, column]
            }
        }
    }

    /// PTX ISA 9.0, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
    fn place_in_quads(&self, matrix: Matrix, element: Element, lane: usize, index: usize) -> [usize; 3] {
        let (product, low, high) = (lane >> 2 & 3, lane & 3, lane >> 4 << 2);
        let (row, column) = match matrix {
            Matrix::A if self.a_by_columns => (index + high, low),
            Matrix::A => (low + high, index),
            Matrix::B if self.b_by_rows => (low, index + high),
            Matrix::B => (index, low + high),
            Matrix::C if element == Element::F16 => (low + high, index),
            Matrix::C => ((lane & 1) + (index & 2) + high, (index & 4) + (lane & 2) + (index & 1)),
        };
        [product, row, column]
    }
}
