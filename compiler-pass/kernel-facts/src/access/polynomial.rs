//! Integer polynomials over atoms, which represent addresses.
//!
//! Polynomials are bounded. An operation that would exceed a limit or overflow returns `None`, and its result becomes
//! an atom of its own, which costs precision but never time. Widths are not modelled: an index that wraps around in 32
//! bits is treated as if it did not, which affects estimates only.

use std::collections::BTreeMap;

/// Index into the table of atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AtomId(pub u32);

/// A product of atoms in ascending order; the empty product stands for the constant term.
pub type Monomial = Vec<AtomId>;

/// Limit on the atoms in one product. Addresses of three-dimensional arrays need four (`((z · ny) + y) · nx` times an
/// element size that is an argument).
const DEGREE_MAX: usize = 4;
/// Limit on the products in one sum; addresses of tiled kernels have about ten.
const TERMS_MAX: usize = 24;

/// A sum of products. Absent products have coefficient 0; products with coefficient 0 are not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Polynomial {
    terms: BTreeMap<Monomial, i64>,
}

impl Polynomial {
    #[must_use]
    pub fn constant(value: i64) -> Self {
        let mut found = Self::default();
        if value != 0 {
            found.terms.insert(Vec::new(), value);
        }
        found
    }

    #[must_use]
    pub fn atom(atom: AtomId) -> Self {
        Self { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    #[must_use]
    pub fn product(coefficient: i64, monomial: Monomial) -> Self {
        let mut found = Self::default();
        if coefficient != 0 {
            found.terms.insert(monomial, coefficient);
        }
        found
    }

    pub fn terms(&self) -> impl Iterator<Item = (&Monomial, i64)> {
        self.terms.iter().map(|(monomial, &coefficient)| (monomial, coefficient))
    }

    /// All atoms, without duplicates.
    #[must_use]
    pub fn atoms(&self) -> Vec<AtomId> {
        let mut found: Vec<_> = self.terms.keys().flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The value, if the polynomial has no atoms.
    #[must_use]
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    #[must_use]
    pub fn constant_part(&self) -> i64 {
        self.terms.get(&Vec::new()).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn coefficient(&self, monomial: &Monomial) -> i64 {
        self.terms.get(monomial).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        self.plus_scaled(other, 1)
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Option<Self> {
        self.plus_scaled(other, -1)
    }

    /// `self + factor · other`.
    #[must_use]
    pub fn plus_scaled(&self, other: &Self, factor: i64) -> Option<Self> {
        let mut sum = self.clone();
        for (monomial, coefficient) in other.terms() {
            let entry = sum.terms.entry(monomial.clone()).or_insert(0);
            *entry = entry.checked_add(coefficient.checked_mul(factor)?)?;
        }
        sum.terms.retain(|_, coefficient| *coefficient != 0);
        (sum.terms.len() <= TERMS_MAX).then_some(sum)
    }

    #[must_use]
    pub fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (left, a) in self.terms() {
            for (right, b) in other.terms() {
                let mut monomial: Monomial = left.iter().chain(right).copied().collect();
                monomial.sort_unstable();
                if monomial.len() > DEGREE_MAX {
                    return None;
                }
                let entry = product.terms.entry(monomial).or_insert(0);
                *entry = entry.checked_add(a.checked_mul(b)?)?;
            }
        }
        product.terms.retain(|_, coefficient| *coefficient != 0);
        (product.terms.len() <= TERMS_MAX).then_some(product)
    }

    /// Quotient by a constant, if every coefficient of a product with atoms is divisible; the constant term is rounded
    /// down.
    #[must_use]
    pub fn divided(&self, by: i64) -> Option<Self> {
        if by <= 0 || self.terms().any(|(monomial, c)| !monomial.is_empty() && c % by != 0) {
            return None;
        }
        let terms = self.terms().map(|(monomial, c)| (monomial.clone(), c.div_euclid(by)));
        Some(Self { terms: terms.filter(|&(_, c)| c != 0).collect() })
    }

    /// Largest degree of any product.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.terms.keys().map(Vec::len).max().unwrap_or(0)
    }
}
