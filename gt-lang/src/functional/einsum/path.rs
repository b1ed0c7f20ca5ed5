//! Which two operands of an `einsum` are multiplied next: those of the order that needs the fewest
//! multiplications, as `opt_einsum` finds it (Smith and Gray 2018). Of many operands the two that
//! need the fewest are multiplied first, until few enough are left.

use super::{Term, size_of};

/// The most operands of which all orders are compared. There are 3 to the power of their number
/// ways to take a part of a part of them.
const FEW: usize = 6;

/// The terms as sets of letters, by their bits.
struct Letters {
    terms: Vec<u64>,
    output: u64,
    sizes: Vec<f64>,
}

/// The places of the two terms that are multiplied next, the smaller place first. None if there
/// are no two.
pub(super) fn next(terms: &[Term], output: &[char]) -> Option<(usize, usize)> {
    match terms.len() {
        0 | 1 => None,
        2 => Some((0, 1)),
        n => {
            let letters = Letters::new(terms, output);
            Some(if n > FEW { letters.cheapest() } else { letters.first() })
        }
    }
}

impl Letters {
    fn new(terms: &[Term], output: &[char]) -> Letters {
        let mut all: Vec<char> = terms.iter().flat_map(|term| term.axes.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let bits = |axes: &[char]| {
            let bit = |c: &char| all.binary_search(c).map_or(0, |at| 1 << at);
            axes.iter().map(bit).fold(0, |all: u64, bit: u64| all | bit)
        };
        let size = |c: &char| terms.iter().map(|term| size_of(term, c)).max().unwrap_or(1) as f64;
        Letters {
            terms: terms.iter().map(|term| bits(&term.axes)).collect(),
            output: bits(output),
            sizes: all.iter().map(size).collect(),
        }
    }

    /// The multiplications of a product in which these letters occur.
    fn work(&self, letters: u64) -> f64 {
        let sizes = self.sizes.iter().enumerate();
        sizes.filter(|(at, _)| letters >> at & 1 == 1).map(|(_, size)| size).product()
    }

    fn cheapest(&self) -> (usize, usize) {
        let n = self.terms.len();
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let work = |(i, j): &(usize, usize)| self.work(self.terms[*i] | self.terms[*j]);
        pairs.min_by(|a, b| work(a).total_cmp(&work(b))).unwrap_or((0, 1))
    }

    /// The letters that the product of a set of terms keeps: others have them, too.
    fn kept(&self, set: usize) -> u64 {
        let of = |inside: bool| {
            let terms = self.terms.iter().enumerate();
            let terms = terms.filter(move |(at, _)| (set >> at & 1 == 1) == inside);
            terms.fold(0, |all, (_, letters)| all | letters)
        };
        of(true) & (of(false) | self.output)
    }

    /// The first product of the best order: the first of two single terms.
    fn first(&self) -> (usize, usize) {
        let all = (1 << self.terms.len()) - 1;
        // By set, the least work and one of the two parts that are multiplied last.
        let mut best = vec![(0.0, 0_usize); all + 1];
        for set in (1..=all).filter(|set: &usize| set.count_ones() > 1) {
            let mut least = (f64::INFINITY, 0);
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set & !part;
                // Each pair of parts once.
                if part > rest {
                    let work = self.work(self.letters(part) | self.letters(rest));
                    let work = work + best[part].0 + best[rest].0;
                    if work < least.0 {
                        least = (work, part);
                    }
                }
                part = (part - 1) & set;
            }
            best[set] = least;
        }
        let mut set = all;
        while set.count_ones() > 2 {
            let part = best[set].1;
            set = if part.count_ones() > 1 { part } else { set & !part };
        }
        (set.trailing_zeros() as usize, set.ilog2() as usize)
    }

    /// The letters of a term, or of the product of several.
    fn letters(&self, set: usize) -> u64 {
        match set.count_ones() {
            1 => self.terms[set.trailing_zeros() as usize],
            _ => self.kept(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    /// The pairs in their order, as letters.
    fn order(equation: &str, sizes: &[(char, usize)]) -> Vec<(String, String)> {
        let (inputs, output) = equation.split_once("->").unwrap();
        let output: Vec<char> = output.chars().collect();
        let term = |axes: Vec<char>| {
            let size = |c: &char| sizes.iter().find(|(known, _)| known == c).unwrap().1;
            let x = DynTensor::zeros(axes.iter().map(size).collect::<Vec<_>>(), DType::F32);
            Term { x, axes }
        };
        let mut terms: Vec<Term> = inputs.split(',').map(|i| term(i.chars().collect())).collect();
        let mut pairs = Vec::new();
        while let Some((i, j)) = next(&terms, &output) {
            let (b, a) = (terms.remove(j).axes, terms.remove(i).axes);
            pairs.push((a.iter().collect(), b.iter().collect()));
            let mut axes: Vec<char> = a.into_iter().chain(b).collect();
            axes.sort_unstable();
            axes.dedup();
            axes.retain(|c| output.contains(c) || terms.iter().any(|t| t.axes.contains(c)));
            terms.push(term(axes));
        }
        pairs
    }

    #[test]
    fn the_cheapest_order_is_taken() {
        let sizes = [('u', 300), ('i', 200), ('k', 8), ('l', 8)];
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let found = order("ui,ik,il->ukl", &sizes);
        assert_eq!(found, [pair("ik", "il"), pair("ui", "ikl")]);
        // A chain of matrices from its right end, where the vector is.
        let sizes = [('a', 90), ('b', 80), ('c', 70), ('d', 60), ('e', 1)];
        let found = order("ab,bc,cd,de->ae", &sizes);
        assert_eq!(found, [pair("cd", "de"), pair("bc", "ce"), pair("ab", "be")]);
        let many = "ab,bc,cd,de,ef,fg,gh,hi->ai";
        let sizes: Vec<(char, usize)> = ('a'..='i').zip([2, 3, 4, 5, 6, 7, 8, 9, 2]).collect();
        assert_eq!(order(many, &sizes).len(), 7);
    }
}
