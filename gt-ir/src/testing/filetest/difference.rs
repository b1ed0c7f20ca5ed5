//! The difference of two texts, line by line.

/// The lines of both, after `-` where only the first has them, after `+` where only the second
/// does: by a longest common subsequence.
pub(super) fn lines(expected: &[&str], found: &[&str]) -> String {
    let (n, m) = (expected.len(), found.len());
    // The length of the longest common subsequence of what follows two places.
    let mut common = vec![vec![0_usize; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            common[i][j] = match expected[i] == found[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < n || j < m {
        let (mark, line) = if i < n && j < m && expected[i] == found[j] {
            (i, j) = (i + 1, j + 1);
            (' ', expected[i - 1])
        } else if j == m || (i < n && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', expected[i - 1])
        } else {
            j += 1;
            ('+', found[j - 1])
        };
        text += &format!("{mark} {line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_both_are_kept_together() {
        let text = super::lines(&["a", "b", "c", "d"], &["a", "x", "c", "d", "e"]);
        assert_eq!(text, "  a\n- b\n+ x\n  c\n  d\n+ e\n");
        assert_eq!(super::lines(&[], &["a"]), "+ a\n");
        assert_eq!(super::lines(&["a"], &[]), "- a\n");
    }
}
