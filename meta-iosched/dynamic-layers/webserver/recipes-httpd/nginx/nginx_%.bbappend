# SPDX-License-Identifier: Apache-2.0
require ${@bb.utils.contains('DISTRO_FEATURES', 'evenkeel', 'nginx_evenkeel.inc', '', d)}
