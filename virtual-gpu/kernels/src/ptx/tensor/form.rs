//! Encoding of a tensor-core multiplication: sizes, types of elements, and flags. Pure.
//!
//! Trap: the `f16` fragments of `wmma` hold each element more than once; a record holds it once.

/// A type of elements: its number in the call, and its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub number: u32,
    pub bits: usize,
}

/// Element types by PTX name: number and bits.
const ELEMENTS: &[(&str, u32, usize)] = &[
    ("f16", 0, 16),
    ("bf16", 1, 16),
    ("tf32", 2, 32),
    ("f32", 3, 32),
    ("f64", 4, 64),
    ("s8", 5, 8),
    ("u8", 6, 8),
    ("s4", 7, 4),
    ("u4", 8, 4),
    ("b1", 9, 1),
    ("s32", 10, 32),
    ("e4m3", 11, 8),
    ("e5m2", 12, 8),
];

pub(super) fn element(word: &str) -> Option<Element> {
    let &(_, number, bits) = ELEMENTS.iter().find(|(name, ..)| *name == word)?;
    Some(Element { number, bits })
}

pub(super) const SATURATES: u32 = 1 << 12;
pub(super) const BY_AND: u32 = 1 << 13;
pub(super) const A_BY_COLUMNS: u32 = 1 << 14;
pub(super) const B_BY_ROWS: u32 = 1 << 15;

/// Sizes as logarithms: `m16n8k8` is 4, 3, 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

pub(super) fn shape(word: &str) -> Option<Shape> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    let log = |text: &str| {
        let size: u32 = text.parse().ok().filter(|size: &u32| size.is_power_of_two())?;
        Some(size.trailing_zeros())
    };
    Some(Shape { m: log(m)?, n: log(n)?, k: log(k)? })
}

/// One multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub shape: Shape,
    pub a: Element,
    pub b: Element,
    pub c: Element,
    pub d: Element,
    pub flags: u32,
}

impl Form {
    /// Encodes the form as the executor's two numbers: operation and types of elements.
    pub fn numbers(&self) -> (u32, u32) {
        let Shape { m, n, k } = self.shape;
        let elements = self.a.number | self.b.number << 4 | self.c.number << 8 | self.d.number << 12;
        (m | n << 4 | k << 8 | self.flags, elements)
    }

    /// Number of independent products: `mma.m8n8k4` of halves is four, one for each quarter of the warp.
    fn products(&self) -> usize {
        let Shape { m, n, k } = self.shape;
        if (m, n, k) == (3, 3, 2) && self.a.bits == 16 { 4 } else { 1 }
    }

    /// Number of 32-bit registers per lane for a matrix of this many elements.
    fn words(&self, elements: usize, element: Element) -> usize {
        elements * self.products() / 32 * element.bits / 32
    }

    pub fn a_words(&self) -> usize {
        self.words(1 << (self.shape.m + self.shape.k), self.a)
    }

    pub fn b_words(&self) -> usize {
        self.words(1 << (self.shape.n + self.shape.k), self.b)
    }

    pub fn c_words(&self) -> usize {
        self.words(1 << (self.shape.m + self.shape.n), self.c)
    }

    pub fn d_words(&self) -> usize {
        self.words(1 << (self.shape.m + self.shape.n), self.d)
    }
}

/// Position, along the outer and the inner side of its matrix, of element number `index` of lane 0. In lane l it is l /
/// 4 further along the outer side, and l % 4 times the elements of a register further along the inner side.
pub(super) fn first_place(outer_bits: u32, packed_bits: u32, index: usize) -> (usize, usize) {
    let rest = index >> packed_bits;
    let further = outer_bits - 3;
    let outer = (rest & ((1 << further) - 1)) << 3;
    let inner = index & ((1 << packed_bits) - 1) | (rest >> further) << (packed_bits + 2);
    (outer, inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_exec::abi::{TENSOR_WORDS, tensor_form};
    use eager_exec::tensor;

    #[test]
    fn forms_are_those_of_the_binary_interface() {
        let ours = [SATURATES, BY_AND, A_BY_COLUMNS, B_BY_ROWS];
        use tensor_form as theirs;
        assert_eq!(ours, [theirs::SATURATES, theirs::BY_AND, theirs::A_BY_COLUMNS, theirs::B_BY_ROWS]);
        assert_eq!([theirs::M_SHIFT, theirs::N_SHIFT, theirs::K_SHIFT, theirs::MULTIPLY], [0, 4, 8, 0]);
        let shifts = [theirs::A_SHIFT, theirs::B_SHIFT, theirs::C_SHIFT, theirs::D_SHIFT];
        assert_eq!(shifts, [0, 4, 8, 12]);
        assert_eq!(super::super::WORDS, TENSOR_WORDS);
        let numbers = [
            theirs::F16,
            theirs::BF16,
            theirs::TF32,
            theirs::F32,
            theirs::F64,
            theirs::S8,
            theirs::U8,
            theirs::S4,
            theirs::U4,
            theirs::B1,
            theirs::S32,
            theirs::E4M3,
            theirs::E5M2,
        ];
        for ((name, number, bits), theirs) in ELEMENTS.iter().zip(numbers) {
            assert_eq!(*number, theirs, "{name}");
            let known = tensor::Element::from_number(*number).expect("known");
            assert_eq!(known.bits(), *bits, "{name}");
        }
    }

    #[test]
    fn elements_lie_where_the_executor_takes_them_to_be() {
        for outer_bits in 3..=5 {
            for packed_bits in 0..=5 {
                for (lane, index) in (0..32).flat_map(|lane| (0..64).map(move |index| (lane, index))) {
                    let (outer, inner) = first_place(outer_bits, packed_bits, index);
                    let ours = (outer + lane / 4, inner + ((lane % 4) << packed_bits));
                    assert_eq!(ours, tensor::spread(outer_bits, packed_bits, lane, index));
                }
            }
        }
    }
}
