//! Assignment of matrix elements to the lanes of a warp.
//!
//! One rule covers all shapes but the oldest (PTX ISA 9.0, "Matrix Fragments for mma.m16n8k8" and its neighbours). The
//! inner side of a matrix is the one along which A and B are multiplied (the columns of A, the rows of B; for C the
//! columns). A register's elements lie next to each other along it, four lanes hold the next ones, and eight such
//! groups of four lie along the outer side; a lane's further elements go on along the outer side first, then along the
//! inner one. The fragments of `wmma` are opaque to programs, so their layout is free to choose: it follows the same
//! rule, which GPUs have used. Trap: eager-kernels has the rule too, for `wmma`'s loads and stores; both must agree.

use super::Form;
use super::element::Element;

/// Position of a lane's element number `index` along the outer and the inner side; `1 << outer_bits` elements lie along
/// the outer side and `1 << packed_bits` in one register.
pub fn spread(outer_bits: u32, packed_bits: u32, lane: usize, index: usize) -> (usize, usize) {
    let packed = index & ((1 << packed_bits) - 1);
    let rest = index >> packed_bits;
    let further = outer_bits - 3;
    let outer = lane >> 2 | (rest & ((1 << further) - 1)) << 3;
    let inner = packed | (lane & 3) << packed_bits | (rest >> further) << (packed_bits + 2);
    (outer, inner)
}

/// Logarithm of the number of elements in one register.
fn packed_bits(element: Element) -> u32 {
    (32 / element.bits().min(32)).trailing_zeros()
}

/// A matrix of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    A,
    B,
    C,
}

impl Form {
    /// True for the four products of 8 by 8 by 4 that one operation was until Volta. It is called for every element, so
    /// it checks only k, which no other form of halves shares.
    pub(super) fn is_quads(&self) -> bool {
        self.k == 2 && self.a == Element::F16
    }

    /// Number of products in one operation.
    pub(super) fn products(&self) -> usize {
        if self.is_quads() { 4 } else { 1 }
    }

    /// Number of elements of a matrix that one lane holds.
    pub(super) fn count(&self, matrix: Matrix) -> usize {
        let [m, n, k] = self.sizes();
        let all = match matrix {
            Matrix::A => m * k,
            Matrix::B => n * k,
            Matrix::C => m * n,
        };
        all * self.products() / 32
    }

    /// Returns the product that a lane's element belongs to, then its row and column.
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

    /// [`Form::place`] for the four products: PTX ISA 9.0, "Matrix Fragments for mma.m8n8k4 with .f16 floating point
    /// type".
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
