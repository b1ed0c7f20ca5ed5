//! A choice for each variable of a factor graph so that the sum of costs is small: sequential
//! tree-reweighted message passing (Kolmogorov, 2006), then changes of one variable at a time.
//!
//! Guarantees: deterministic; the number of steps depends on the sizes alone.

/// Costs from which on a combination is not possible.
pub(super) const IMPOSSIBLE: f64 = 1e9;
/// Passes over all variables, forwards and backwards.
const PASSES: usize = 20;
/// Passes over all variables that change one at a time.
const CHANGES: usize = 8;

/// Costs of the states of variables and of pairs of them.
#[derive(Debug, Default)]
pub(super) struct Factors {
    /// The costs of each variable's states.
    own: Vec<Vec<f64>>,
    pairs: Vec<Pair>,
    /// The pairs of each variable.
    of: Vec<Vec<usize>>,
}

/// The costs of two variables' states together.
#[derive(Debug)]
struct Pair {
    /// The variables, the lower number first.
    ends: [usize; 2],
    /// Row by row, a row for each state of the first.
    costs: Vec<f64>,
    /// What the other end says about each state of the first and of the second.
    messages: [Vec<f64>; 2],
}

impl Factors {
    /// A variable with these costs of its states.
    pub(super) fn variable(&mut self, costs: Vec<f64>) -> usize {
        self.own.push(costs);
        self.of.push(Vec::new());
        self.own.len() - 1
    }

    /// Costs of two variables' states together; `cost` gets a state of each.
    pub(super) fn pair(&mut self, a: usize, b: usize, cost: impl Fn(usize, usize) -> f64) {
        let (first, second) = (a.min(b), a.max(b));
        let (rows, columns) = (self.own[first].len(), self.own[second].len());
        let states = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let ordered = |(i, j)| if a <= b { cost(i, j) } else { cost(j, i) };
        let costs = states.map(ordered).collect();
        let messages = [vec![0.0; rows], vec![0.0; columns]];
        self.of[first].push(self.pairs.len());
        self.of[second].push(self.pairs.len());
        self.pairs.push(Pair { ends: [first, second], costs, messages });
    }

    /// A state for each variable, and the sum of costs.
    pub(super) fn solve(&mut self) -> (Vec<usize>, f64) {
        let mut best = self.descend((0..self.own.len()).map(|v| least(&self.own[v])).collect());
        for _ in 0..PASSES {
            (0..self.own.len()).for_each(|variable| self.send(variable, true));
            (0..self.own.len()).rev().for_each(|variable| self.send(variable, false));
            let found = self.descend(self.decode());
            if found.1 < best.1 * (1.0 - 1e-9) {
                best = found;
            }
        }
        best
    }

    /// Every state of every variable.
    pub(super) fn changes(&self) -> impl Iterator<Item = (usize, usize)> {
        let states = |(variable, own): (usize, &Vec<f64>)| {
            (0..own.len()).map(move |state| (variable, state)).collect::<Vec<_>>()
        };
        self.own.iter().enumerate().flat_map(states)
    }

    /// Choices with another state of a variable, to which its neighbors have adapted, if that is a
    /// change and possible.
    pub(super) fn changed(
        &self,
        chosen: &[usize],
        (variable, state): (usize, usize),
    ) -> Option<Vec<usize>> {
        if chosen[variable] == state {
            return None;
        }
        let mut chosen = chosen.to_vec();
        chosen[variable] = state;
        for &pair in &self.of[variable] {
            let ends = self.pairs[pair].ends;
            let neighbor = if ends[0] == variable { ends[1] } else { ends[0] };
            chosen[neighbor] = self.better(neighbor, &chosen);
        }
        (self.cost(&chosen) < IMPOSSIBLE).then_some(chosen)
    }

    /// All choices that are possible, if there are at most so many.
    #[cfg(test)]
    pub(super) fn choices(&self, most: usize) -> Option<Vec<Vec<usize>>> {
        let n = self.own.iter().try_fold(1, |n: usize, own| n.checked_mul(own.len()))?;
        let choice = |mut number: usize| {
            let state = |own: &Vec<f64>| {
                let state = number % own.len();
                number /= own.len();
                state
            };
            self.own.iter().map(state).collect::<Vec<_>>()
        };
        let possible = |chosen: &Vec<usize>| self.cost(chosen) < IMPOSSIBLE;
        (n <= most).then(|| (0..n).map(choice).filter(possible).collect())
    }

    /// A variable's messages to those after it, or before it.
    fn send(&mut self, variable: usize, forwards: bool) {
        let mut heard = self.own[variable].clone();
        let (mut before, mut after) = (0, 0);
        for &pair in &self.of[variable] {
            let Pair { ends, messages, .. } = &self.pairs[pair];
            let side = usize::from(ends[1] == variable);
            heard.iter_mut().zip(&messages[side]).for_each(|(sum, message)| *sum += message);
            if side == 0 { after += 1 } else { before += 1 }
        }
        let weight = 1.0 / f64::from(before.max(after).max(1));
        for at in 0..self.of[variable].len() {
            let pair = &mut self.pairs[self.of[variable][at]];
            let side = usize::from(pair.ends[1] == variable);
            if (side == 0) == forwards {
                pair.tell(side, &heard, weight);
            }
        }
    }

    /// The states that the messages suggest, one variable after the other.
    fn decode(&self) -> Vec<usize> {
        let mut chosen = vec![0; self.own.len()];
        for variable in 0..self.own.len() {
            let mut costs = self.own[variable].clone();
            for &pair in &self.of[variable] {
                let pair = &self.pairs[pair];
                let side = usize::from(pair.ends[1] == variable);
                for (state, cost) in costs.iter_mut().enumerate() {
                    *cost += match side {
                        0 => pair.messages[0][state],
                        _ => pair.cost(1, state, chosen[pair.ends[0]]),
                    };
                }
            }
            chosen[variable] = least(&costs);
        }
        chosen
    }

    /// Changes one variable at a time while that helps.
    fn descend(&self, mut chosen: Vec<usize>) -> (Vec<usize>, f64) {
        for _ in 0..CHANGES {
            let before = chosen.clone();
            for variable in 0..chosen.len() {
                chosen[variable] = self.better(variable, &chosen);
            }
            if chosen == before {
                break;
            }
        }
        let cost = self.cost(&chosen);
        (chosen, cost)
    }

    /// The best state of a variable, if the others have these. It stays among equals.
    fn better(&self, variable: usize, chosen: &[usize]) -> usize {
        let costs = self.given(variable, chosen);
        let best = least(&costs);
        if costs[best] < costs[chosen[variable]] { best } else { chosen[variable] }
    }

    /// The costs of a variable's states, if the others have these.
    fn given(&self, variable: usize, chosen: &[usize]) -> Vec<f64> {
        let mut costs = self.own[variable].clone();
        for &pair in &self.of[variable] {
            let pair = &self.pairs[pair];
            let side = usize::from(pair.ends[1] == variable);
            let other = chosen[pair.ends[1 - side]];
            for (state, cost) in costs.iter_mut().enumerate() {
                *cost += pair.cost(side, state, other);
            }
        }
        costs
    }

    fn cost(&self, chosen: &[usize]) -> f64 {
        let own: f64 = self.own.iter().zip(chosen).map(|(costs, state)| costs[*state]).sum();
        let pairs = self.pairs.iter().map(|p| p.cost(0, chosen[p.ends[0]], chosen[p.ends[1]]));
        own + pairs.sum::<f64>()
    }
}

impl Pair {
    /// The costs of a state of one side and a state of the other.
    fn cost(&self, side: usize, state: usize, other: usize) -> f64 {
        let (row, column) = if side == 0 { (state, other) } else { (other, state) };
        self.costs[row * self.messages[1].len() + column]
    }

    /// Tells the other side what is best for each of its states, by what this side has heard.
    fn tell(&mut self, side: usize, heard: &[f64], weight: f64) {
        let known: Vec<f64> = heard
            .iter()
            .zip(&self.messages[side])
            .map(|(heard, message)| weight * heard - message)
            .collect();
        let best = |other: usize| {
            let costs =
                known.iter().enumerate().map(|(s, known)| known + self.cost(side, s, other));
            costs.fold(f64::INFINITY, f64::min)
        };
        let mut told: Vec<f64> = (0..self.messages[1 - side].len()).map(best).collect();
        let least = told.iter().copied().fold(f64::INFINITY, f64::min);
        told.iter_mut().for_each(|message| *message -= least);
        self.messages[1 - side] = told;
    }
}

/// The first state of least cost.
fn least(costs: &[f64]) -> usize {
    let mut best = 0;
    for (state, cost) in costs.iter().enumerate() {
        if *cost < costs[best] {
            best = state;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use gt_ir::testing::Source;

    use super::*;

    /// A random factor graph: a chain with further pairs, as programs have. Most pairs cost nothing
    /// if their ends agree.
    fn random(source: &mut Source<'_>) -> Factors {
        let mut factors = Factors::default();
        let n = 2 + source.below(6);
        let cost = |source: &mut Source<'_>| source.below(100) as f64 + 1.0;
        for _ in 0..n {
            let states = 1 + source.below(4);
            let costs = (0..states).map(|_| cost(source)).collect();
            factors.variable(costs);
        }
        for b in 1..n {
            let mut firsts = vec![b - 1];
            if b > 1 && source.chance(1, 3) {
                firsts.push(source.below(b - 1));
            }
            for a in firsts {
                let (rows, columns) = (factors.own[a].len(), factors.own[b].len());
                let costs: Vec<f64> = (0..rows * columns).map(|_| cost(source)).collect();
                factors.pair(a, b, |i, j| if i == j { 0.0 } else { costs[i * columns + j] });
            }
        }
        factors
    }

    /// The least cost of all choices.
    fn least_of_all(factors: &Factors) -> f64 {
        let choices = factors.choices(usize::MAX).unwrap();
        choices.iter().map(|chosen| factors.cost(chosen)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn choices_are_within_two_percent_of_the_best_on_average_and_often_the_best() {
        let (mut found, mut best, mut exact) = (0.0, 0.0, 0);
        for seed in 0..500 {
            let mut factors = random(&mut Source::from_seed(seed));
            let least = least_of_all(&factors);
            let (chosen, cost) = factors.solve();
            assert!((factors.cost(&chosen) - cost).abs() < 1e-9 && cost >= least - 1e-9, "{seed}");
            assert!(cost <= least * 1.25, "{seed}: {cost} and {least}");
            (found, best) = (found + cost, best + least);
            exact += usize::from(cost < least + 1e-9);
        }
        assert!(found <= best * 1.02, "{found} and {best}");
        assert!(exact > 450, "{exact} of 500");
    }

    #[test]
    fn a_pair_may_come_in_either_order() {
        for swapped in [false, true] {
            let mut factors = Factors::default();
            let a = factors.variable(vec![0.0, 1.0]);
            let b = factors.variable(vec![3.0, 0.0, 0.0]);
            let cost = |i: usize, j: usize| if i == 1 && j == 2 { 0.0 } else { 9.0 };
            match swapped {
                true => factors.pair(b, a, |j, i| cost(i, j)),
                false => factors.pair(a, b, cost),
            }
            assert_eq!(factors.solve(), (vec![1, 2], 1.0));
        }
    }
}
